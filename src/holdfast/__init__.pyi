from holdfast import errors as errors
from holdfast.client.balancing import RoundRobin as RoundRobin
from holdfast.client.connecting import connect as connect
from holdfast.client.handles import Handle as Handle
from holdfast.client.handles import Job as Job
from holdfast.client.holdfast import Holdfast as Holdfast
from holdfast.client.opening import open as open
from holdfast.client.schedules import Schedule as Schedule
from holdfast.client.task import task as task
from holdfast.core.schedule import SCHEDULED_AT as scheduled_at
from holdfast.wire.sinks import FileSink as FileSink
from holdfast.wire.sinks import FunctionSink as FunctionSink
from holdfast.wire.sinks import HttpSink as HttpSink
from holdfast.wire.sinks import PostgresSink as PostgresSink
from holdfast.worker.context import Context as Context
from holdfast.worker.current import current as current
from holdfast.worker.sinks.outlet import Effect as Effect

__version__: str
__all__ = [
    "Context",
    "Effect",
    "FileSink",
    "FunctionSink",
    "Handle",
    "Holdfast",
    "HttpSink",
    "Job",
    "PostgresSink",
    "RoundRobin",
    "Schedule",
    "__version__",
    "connect",
    "current",
    "errors",
    "open",
    "scheduled_at",
    "task",
]

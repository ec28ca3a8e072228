"""Jobs that survive the machines they run on.

Everything a program needs is a name of this package: `holdfast.task` marks a function,
`holdfast.open` starts a coordinator with local workers, `holdfast.connect` uses a server,
`holdfast.current` is a task as its own code sees it, `holdfast.errors` holds what may be raised.

A name is loaded when it is first asked for, because the command line and every child process
import this package and most of them need none of it. Type checkers read `__init__.pyi` instead,
which must list the same names; a test compares the two.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from holdfast.version import VERSION

# Public name -> the module that has it, and its name there; an empty name is the module itself.
PUBLIC: Final[Mapping[str, tuple[str, str]]] = {
    "Context": ("holdfast.worker.context", "Context"),
    "Effect": ("holdfast.worker.sinks.outlet", "Effect"),
    "FileSink": ("holdfast.wire.sinks", "FileSink"),
    "FunctionSink": ("holdfast.wire.sinks", "FunctionSink"),
    "Handle": ("holdfast.client.handles", "Handle"),
    "Holdfast": ("holdfast.client.holdfast", "Holdfast"),
    "HttpSink": ("holdfast.wire.sinks", "HttpSink"),
    "Job": ("holdfast.client.handles", "Job"),
    "PostgresSink": ("holdfast.wire.sinks", "PostgresSink"),
    "RoundRobin": ("holdfast.client.balancing", "RoundRobin"),
    "Schedule": ("holdfast.client.schedules", "Schedule"),
    "connect": ("holdfast.client.connecting", "connect"),
    "current": ("holdfast.worker.current", "current"),
    "errors": ("holdfast.errors", ""),
    "open": ("holdfast.client.opening", "open"),
    "scheduled_at": ("holdfast.core.schedule", "SCHEDULED_AT"),
    "task": ("holdfast.client.task", "task"),
}

__version__ = VERSION
__all__ = [*sorted(["__version__", *PUBLIC])]  # noqa: PLE0604 - the keys are strings


def __getattr__(name: str) -> object:
    """The public thing of this name, loaded now if nobody asked before."""
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module_name, attribute = PUBLIC[name]
    module = import_module(module_name)
    return getattr(module, attribute) if attribute else module


def __dir__() -> list[str]:
    return sorted(__all__)

"""A whole cluster in one test: the real coordinator, real agents, the functions of users, and time
that moves when it is told to. See docs/testing.md."""

from holdfast.testing.rehearsal.blows import Blow
from holdfast.testing.rehearsal.clock import VirtualClock
from holdfast.testing.rehearsal.errors import NothingLeft, StillRunning
from holdfast.testing.rehearsal.rehearsal import Rehearsal
from holdfast.testing.rehearsal.sink import RecordingSink

__all__ = [
    "Blow",
    "NothingLeft",
    "RecordingSink",
    "Rehearsal",
    "StillRunning",
    "VirtualClock",
]

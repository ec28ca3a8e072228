"""Requests about schedules. Instants are computed outside and come in as numbers."""

from typing import Final

from msgspec import Struct

from holdfast.core.command import Command
from holdfast.core.ids import Instant, Position
from holdfast.core.schedule import DUE, Definition


class SetSchedule(Command, frozen=True, kw_only=True):
    """Have a job submitted again and again. `next_wall` is the first instant. A schedule of this
    name is left alone unless `replace` says otherwise; `revision`, where given, is the one that
    is meant to be replaced."""

    name: str
    definition: Definition
    next_wall: Instant
    replace: bool = False
    revision: Position = Position(0)


class RemoveSchedule(Command, frozen=True, kw_only=True):
    """End a schedule; what it began goes on."""

    name: str


class PauseSchedule(Command, frozen=True, kw_only=True):
    """Begin nothing more by the clock."""

    name: str
    reason: str = ""


class ResumeSchedule(Command, frozen=True, kw_only=True):
    """Go on with the instant `next_wall`; those before it are not made up for."""

    name: str
    next_wall: Instant


class FireSchedule(Command, frozen=True, kw_only=True):
    """Submit the run for an instant. By the clock (`due`, `made_up`) it is the schedule's next
    one, followed by `next_wall`. `stamp` is the instant as text, for runs that want to know it."""

    name: str
    at_wall: Instant
    next_wall: Instant
    cause: str = DUE
    stamp: bytes = b""


class SkipInstants(Command, frozen=True, kw_only=True):
    """Pass over `count` instants, the first and the last named; the next is `next_wall`."""

    name: str
    from_wall: Instant
    until_wall: Instant
    count: int
    next_wall: Instant
    why: str


class Moment(Struct, frozen=True, array_like=True, gc=False):
    """One instant to run for, and how it is written."""

    at_wall: Instant
    stamp: bytes


class BackfillSchedule(Command, frozen=True, kw_only=True):
    """Submit the runs for these instants of the past; one that is known already is left out."""

    name: str
    moments: tuple[Moment, ...]


SCHEDULE_COMMANDS: Final[tuple[type[Command], ...]] = (
    SetSchedule,
    RemoveSchedule,
    PauseSchedule,
    ResumeSchedule,
    FireSchedule,
    SkipInstants,
    BackfillSchedule,
)

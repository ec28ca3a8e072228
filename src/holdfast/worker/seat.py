"""Where a task sits: what a lane says about the task it is in, before each of them.

That word follows the code into whatever takes its context variables along: coroutines,
`asyncio.to_thread`, threads that are given a copy. All a task costs that never asks is said here.
"""

import os
from contextvars import ContextVar
from typing import Final, Protocol

from holdfast.core.ids import LeaseId
from holdfast.core.owed import Entry
from holdfast.wire.exchange import Done, Item, Progress, Run
from holdfast.worker.results import Keep
from holdfast.worker.staging import Workbench

Seat = tuple[tuple[Run, Item], int, "Host"]
"""One attempt under way: what it runs, when it began by the clock of its lane, and the lane. One
for each task, so a bare tuple."""

_SEAT: Final[ContextVar[Seat | None]] = ContextVar("holdfast_seat", default=None)

enter: Final = _SEAT.set
"""What this thread runs from now on belongs to this task."""

current_seat: Final = _SEAT.get

JOB_VARIABLE: Final = "HOLDFAST_JOB_ID"


class Promises(Protocol):
    """The context of an attempt, as its lane needs it."""

    @property
    def seat(self) -> Seat | None: ...

    @property
    def knew_to_stop(self) -> bool:
        """Whether the task looked whether it should end, and was told so."""

    def finish(self) -> tuple[Entry, ...]:
        """The task has its result: what its commit owes. Nothing more is taken."""

    def lose(self, error: BaseException | None = None) -> None:
        """The attempt has come to nothing: what it promised does not happen."""


class Host(Protocol):
    """The lane that a task runs in, as the task's context needs it. Any thread may ask."""

    worker: str
    keep: Keep
    workbench: Workbench
    current: Seat | None
    context: Promises | None

    def clock_ms(self) -> int: ...

    def is_stopping(self, lease_id: LeaseId) -> bool:
        """Whether this attempt was asked to end."""

    def tell(self, progress: Progress) -> None: ...

    def commit(self, done: Done) -> str:
        """Ask for this commit and wait for what comes of it: why it was not accepted, if so."""

    def left(self, lease_id: LeaseId, error: str) -> None:
        """What followed the commit is over; `error` empty: in good order."""


def promised(host: Host, seat: Seat) -> tuple[Entry, ...]:
    """What the task in this seat owes with its result. Asked only where there is a context."""
    context = host.context
    return context.finish() if context is not None and context.seat is seat else ()


def lost(host: Host, seat: Seat, error: BaseException) -> None:
    """The task in this seat has failed."""
    context = host.context
    if context is not None and context.seat is seat:
        context.lose(error)


def current_job() -> str:
    """The job that the caller is part of; empty outside any."""
    seat = _SEAT.get()
    return os.environ.get(JOB_VARIABLE, "") if seat is None else seat[0][0].job_id

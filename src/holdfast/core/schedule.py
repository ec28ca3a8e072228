"""Work that comes again: what runs, when, and what becomes of instants that were missed or met
while the run before was still going. The calendar is kept outside; here are only its answers.
"""

from typing import Final

from msgspec import Struct

from holdfast.core.ids import NEVER, NOWHERE, Instant, JobId, Position
from holdfast.core.spec import JobSpec

SKIP: Final = "skip"
ONE: Final = "one"
ALL: Final = "all"
MISSED: Final = (SKIP, ONE, ALL)
"""What becomes of instants that passed while nobody looked: none is made up for, the latest one
stands for all, or each is run."""

ALLOW: Final = "allow"
REPLACE: Final = "replace"
OVERLAPS: Final = (ALLOW, SKIP, REPLACE)
"""What becomes of an instant while the run before it goes on: both run, the new one does not
take place, or the old one is stopped."""

DUE: Final = "due"
MADE_UP: Final = "made_up"
BY_HAND: Final = "by_hand"
BACKFILL: Final = "backfill"
CAUSES: Final = (DUE, MADE_UP, BY_HAND, BACKFILL)

LABEL: Final = "schedule"
"""Every run carries the name of its schedule under this label."""

SHORTEST_MS: Final = 1_000
CRON_CHARACTERS_MAX: Final = 500
BACKFILL_MAX: Final = 1_000

SCHEDULED_AT: Final = "{holdfast: scheduled_at}"
"""Stands in a payload for the instant that a run is for: as long as that instant is when written
in RFC 3339 with milliseconds, so that one takes the place of the other in any encoding."""


class Timing(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """When: a cron expression read in a time zone, or every so many milliseconds."""

    cron: str = ""
    every_ms: int = 0
    zone: str = "UTC"


class Definition(
    Struct, frozen=True, array_like=True, forbid_unknown_fields=True
):
    """What a user asked for. The job is that of a submit: `items`, or `count` tasks that have
    `shared` in common."""

    timing: Timing
    spec: JobSpec
    items: tuple[bytes, ...] = ()
    count: int = 0
    shared: bytes = b""
    missed: str = ONE
    overlap: str = SKIP


class Schedule(Struct, array_like=True, kw_only=True):
    """A definition and how far it has come.

    `next_wall` is the instant that comes next on the wall clock, `last_wall` the last one that was
    run or skipped: the clock takes instants in their order, each once. `last_job` is the last run
    that the clock or a person began. `revision` is where the definition was recorded.
    """

    name: str
    definition: Definition
    created_at: Instant
    updated_at: Instant
    revision: Position = NOWHERE
    next_wall: Instant = NEVER
    last_wall: Instant = NEVER
    last_job: JobId = JobId("")
    paused: bool = False
    reason: str = ""
    runs: int = 0
    skipped: int = 0


def run_key(name: str, at_wall: Instant) -> str:
    """The submit key of the run for an instant: whoever asks for it again finds that run."""
    return f"schedule:{name}@{at_wall}"


def stamped(payload: bytes, stamp: bytes) -> bytes:
    """The payload of one run: told which instant it is for, where it wants to know."""
    return payload.replace(SCHEDULED_AT.encode(), stamp)

"""Facts about what commits owe: delivered, failed, parked, sent again, discarded, done."""

from msgspec import Struct

from holdfast.core.event import Event
from holdfast.core.ids import Index, Instant, JobId


class Settled(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """One entry of one task, of the job that the event names."""

    index: Index
    number: int


class Parked(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """One entry that waits for an operator: how many tries have failed, and the last trouble."""

    index: Index
    number: int
    tries: int
    error: str


class EffectsDelivered(Event, frozen=True, kw_only=True):
    """Entries that commits owed are confirmed: they have happened."""

    job_id: JobId
    settled: tuple[Settled, ...]


class DeliveryFailed(Event, frozen=True, kw_only=True):
    """A try to deliver an entry failed; the next comes no earlier than `not_before`."""

    job_id: JobId
    index: Index
    number: int
    tries: int
    not_before: Instant
    error: str


class EffectsParked(Event, frozen=True, kw_only=True):
    """Entries that nobody will try again before an operator says so. They are still owed."""

    job_id: JobId
    parked: tuple[Parked, ...]


class EffectsRetried(Event, frozen=True, kw_only=True):
    """An operator sent entries on their way again, each with a fresh budget."""

    job_id: JobId
    settled: tuple[Settled, ...]


class EffectsDiscarded(Event, frozen=True, kw_only=True):
    """An operator gave entries up: they are owed no more, and have perhaps never happened."""

    job_id: JobId
    settled: tuple[Settled, ...]
    reason: str


class TasksDone(Event, frozen=True, kw_only=True):
    """These commits owe nothing any more: the last of it was settled in this same record."""

    job_id: JobId
    indices: tuple[Index, ...]

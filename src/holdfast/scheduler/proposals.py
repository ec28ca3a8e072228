"""What a plan says. Nothing of it is true before it has become a grant."""

from msgspec import Struct, field

from holdfast.core.ids import Index, JobId, WorkerId
from holdfast.core.ready import Row
from holdfast.scheduler.eviction import Eviction
from holdfast.scheduler.gangs import GangPick


class Pick(Struct, frozen=True, gc=False):
    """A proposal: these tasks of this job to this slot, stamped with this rank."""

    worker: WorkerId
    incarnation: int
    slot: int
    job_id: JobId
    indices: tuple[Index, ...]
    alone: bool
    rank: int = 0


class Hurry(Struct, frozen=True):
    """Something more urgent waits for this slot: what has not begun in it is asked back."""

    worker: WorkerId
    slot: int


class Plan(Struct):
    """What to lease, what to end, what to ask back; the rows that got something, and those that
    found no room, most urgent first. `is_cut`: it is the beginning of a longer one, and whoever
    was not looked at any more is in neither."""

    picks: list[Pick] = field(default_factory=list)
    gangs: list[GangPick] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    hurries: list[Hurry] = field(default_factory=list)
    served: list[Row] = field(default_factory=list)
    waiting: list[Row] = field(default_factory=list)
    is_cut: bool = False

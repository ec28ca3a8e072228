"""What a plan made at this moment would do: the same plan that a round makes, and nothing of it
is carried out."""

from typing import Final

from holdfast.core.ids import Index, JobId
from holdfast.core.job import Job
from holdfast.core.ready import Row, count_leasable
from holdfast.core.shape import Shape, shape_of
from holdfast.core.state import State
from holdfast.core.task import FRESH
from holdfast.scheduler.outlook import Outlook
from holdfast.scheduler.plan import plan
from holdfast.scheduler.reasons import MOST_AHEAD

MOST_BEFORE: Final = 10


class Foresight:
    """The plan, were every worker that takes work asking for it now."""

    def __init__(self, outlook: Outlook) -> None:
        for seat in outlook.seats:
            seat.is_listening = True
        self._ranks = {_key(row): outlook.rank_of(row) for row in outlook.rows}
        self._now = outlook.now
        self._plan = plan(outlook)
        self.placed: dict[JobId, set[Index]] = {}
        for pick in self._plan.picks:
            self.placed.setdefault(pick.job_id, set()).update(pick.indices)
        for gang in self._plan.gangs:
            self.placed[gang.job_id] = {member.index for member in gang.members}

    def is_next(self, job: Job, index: Index) -> bool:
        return index in self.placed.get(job.job_id, ())

    def before(self, job: Job) -> tuple[JobId, ...]:
        """The jobs that found no room and go before this one."""
        rank = self._rank_of(job)
        found = [
            row.head.job_id
            for row in self._plan.waiting
            if row.head is not None and row.head is not job and self._ranks[_key(row)] >= rank
        ]
        return tuple(found[:MOST_BEFORE])

    def ahead(self, state: State, job: Job, index: Index) -> int:
        """How many tasks that could be leased go before this one, counted up to a bound: those of
        a higher rank, at the same rank those of jobs that came before, and its own elder
        siblings."""
        mine, now = self._rank_of(job), self._now
        found = job.states.count(FRESH, 0, index)
        for key, rank in self._ranks.items():
            for job_id in state.ready.queues.get(key, ()) if rank >= mine else ():
                other = state.jobs.get(job_id)
                if rank == mine and other is not None and other.position >= job.position:
                    # The others of this line came later still.
                    break
                if other is not None and other is not job:
                    found += count_leasable(other, now, MOST_AHEAD)
                if found >= MOST_AHEAD:
                    return MOST_AHEAD
        return found

    def _rank_of(self, job: Job) -> int:
        return self._ranks.get((job.spec.priority, shape_of(job)), job.spec.priority)

    def ends_on(self, job: Job) -> tuple[str, ...]:
        """The workers where attempts would be ended for it."""
        ended = {each.worker for each in self._plan.evictions if each.job_id == job.job_id}
        return tuple(sorted(ended))


def _key(row: Row) -> tuple[int, Shape]:
    return row.priority, row.shape

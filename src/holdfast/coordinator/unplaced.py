"""Why jobs were given no worker in time: what is recorded with the end of their tasks."""

from collections.abc import Iterator
from typing import Final

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.crews import LiveCrew
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.surroundings import Surroundings
from holdfast.core.decide.tick import UNPLACED, past_schedule
from holdfast.core.ids import Index, Instant, JobId
from holdfast.core.job import Job, first_fresh
from holdfast.core.task import FRESH, TaskState
from holdfast.scheduler.explain import explain

MOST_TOLD: Final = 1_000
MOST_LETTERS: Final = 2_000
"""How many jobs of one tick are told why, and in how many letters: it is all recorded."""


class Unplaced:
    """Says of each job whose scheduling deadline has come everything that stands in its way."""

    def __init__(self, coordinator: Coordinator, exchanges: Exchanges) -> None:
        self._coordinator = coordinator
        self._exchanges = exchanges

    def reasons(self, now: Instant) -> tuple[tuple[JobId, str], ...]:
        return tuple(self._told(now))

    def _told(self, now: Instant) -> Iterator[tuple[JobId, str]]:
        state = self._coordinator.state
        jobs = past_schedule(state, now)[:MOST_TOLD]
        if not jobs:
            return
        crew = LiveCrew(state, self._exchanges)
        around = Surroundings(state, now, self._coordinator.clock.wall(), crew)
        for job in jobs:
            here = around.situation(job, _unstarted(job))
            if not here.is_next:
                told = " ".join(reason.sentence for reason in explain(here))
                yield job.job_id, f"{UNPLACED}: {told}"[:MOST_LETTERS]


def _unstarted(job: Job) -> Index:
    """A task that no worker ever took: there is one."""
    if FRESH in job.states:
        return Index(first_fresh(job, 0))
    waiting = (task for task in (job.tasks or {}).values() if task.state is TaskState.WAITING)
    return next(task.index for task in waiting if not task.attempt)

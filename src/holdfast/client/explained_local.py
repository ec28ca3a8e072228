"""Why work is where it is, in an open folder: the coordinator is asked, then the log."""

from collections.abc import Callable
from typing import Any

from msgspec import convert

from holdfast.client.errors import Refused
from holdfast.client.explained import EVERYTHING, Explained, Summary, counts_of
from holdfast.coordinator.census import Census
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.crews import LiveCrew
from holdfast.coordinator.embedding import Embedded
from holdfast.coordinator.explaining import job_explained, task_explained
from holdfast.coordinator.past import JobPast, copied
from holdfast.coordinator.surroundings import Surroundings
from holdfast.coordinator.views import View
from holdfast.core.decide.jobs import no_task, unknown
from holdfast.core.decision import Refused as RefusedDecision
from holdfast.core.ids import Index, JobId
from holdfast.core.job import job_state


class LocalReasons:
    """`ask` has a question answered by the coordinator."""

    def __init__(
        self, embedded: Embedded, ask: Callable[[Callable[[Coordinator], Any]], Any]
    ) -> None:
        self._embedded = embedded
        self._ask = ask

    def of(self, job_id: JobId, index: Index | None) -> Explained:
        """Looked at in one turn of the coordinator, then told with what the log knows."""
        told = self._ask(lambda coordinator: self._look(coordinator, job_id, index))
        if isinstance(told, RefusedDecision):
            raise Refused(told.code, told.message)
        return convert(told(), Explained)

    def waiting(self) -> dict[str, int]:
        def count(coordinator: Coordinator) -> View:
            census = Census(self._around(coordinator))
            for job in coordinator.state.jobs.values():
                census.take(job)
            return census.view()

        return counts_of(convert(self._ask(count), Summary))

    def _look(
        self, coordinator: Coordinator, job_id: JobId, index: Index | None
    ) -> RefusedDecision | Callable[[], View]:
        state = coordinator.state
        job = state.jobs.get(job_id)
        if job is None:
            return unknown(state, job_id)
        if index is not None and not 0 <= index < job.count:
            return no_task(job, index)
        around, offset = self._around(coordinator), _offset(coordinator)
        span = (self._embedded.log.oldest, state.position, EVERYTHING)
        copy = copied(job, index or Index(0))
        past = JobPast(self._embedded.log, copy, lambda instant: instant + offset)
        hangs = self._embedded.stalls.current()
        if index is None:
            whole, shown = around.whole(job), job_state(job).value
            return lambda: job_explained(past, job_id, shown, whole, *span, hangs)
        here = around.situation(job, index)
        return lambda: task_explained(past, here, copy, index, *span, hangs)

    def _around(self, coordinator: Coordinator) -> Surroundings:
        crew = LiveCrew(coordinator.state, self._embedded.exchanges)
        clock = coordinator.clock
        return Surroundings(coordinator.state, coordinator.now(), clock.wall(), crew)


def _offset(coordinator: Coordinator) -> int:
    return coordinator.clock.wall() - coordinator.now()

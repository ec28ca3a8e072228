"""Results of gangs that wait for their last member. In memory only: nothing of a gang is committed
before all of it is, and a worker keeps a result until it has heard what became of it."""

from collections.abc import Iterable

from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.job import Job
from holdfast.core.owed import Stored
from holdfast.core.reports import Done
from holdfast.core.state import State


class Gangs:
    """Safe to lose: after a restart workers tell what they have again."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._kept: dict[JobId, dict[Index, c.Finished]] = {}

    def keep(self, report: c.Finished) -> bool:
        """Keep a result, if its lease is the current one of its task; whether it was kept."""
        done = report.done
        job = self._state.jobs.get(done.job_id)
        if job is None or not _is_current(job, report):
            return False
        self._kept.setdefault(done.job_id, {})[done.index] = report
        return True

    def whole(self, job_id: JobId) -> tuple[c.Finished, ...]:
        """The results of the whole gang, where all of them are here; and then no longer."""
        job = self._state.jobs.get(job_id)
        if job is None:
            self._kept.pop(job_id, None)
            return ()
        kept = self._current(job)
        if len(kept) < job.count:
            return ()
        del self._kept[job_id]
        return kept

    def leases(self, reports: Iterable[Done]) -> tuple[LeaseId, ...]:
        """Which of these are kept, and not yet decided."""
        if not self._kept:
            return ()
        return tuple(
            done.lease_id
            for done in reports
            if (kept := self._kept.get(done.job_id, {}).get(done.index)) is not None
            and kept.done.lease_id == done.lease_id
        )

    def stored(self) -> list[Stored]:
        """The large results among those that are kept: nothing else refers to them yet."""
        reports = [report.done for kept in self._kept.values() for report in kept.values()]
        return [done.stored for done in reports if done.stored is not None]

    def sweep(self) -> None:
        """Let go of what fell with its gang."""
        for job_id in list(self._kept):
            job = self._state.jobs.get(job_id)
            if job is None or not self._current(job):
                del self._kept[job_id]

    def _current(self, job: Job) -> tuple[c.Finished, ...]:
        kept = self._kept.get(job.job_id, {})
        return tuple(report for report in kept.values() if _is_current(job, report))


def _is_current(job: Job, report: c.Finished) -> bool:
    task = (job.tasks or {}).get(report.done.index)
    return (
        task is not None
        and task.lease_id == report.done.lease_id != 0
        and (task.worker, task.incarnation) == (report.worker, report.incarnation)
    )

"""Which worker fails what others do well.

A retry avoids the worker that failed it, so that a task which then succeeds says something about
the machine, and not about itself. A worker that fails task after task which succeed elsewhere, and
does nothing well in between, is cordoned: it would eat the budgets of everything that waits.
"""

from holdfast.core.ids import Index, JobId, WorkerId

KEPT = 10_000

Key = tuple[JobId, Index]


class Blame:
    """Safe to lose: it begins again with the next failure. `most` is how many different tasks a
    worker may fail so; zero: nobody is cordoned for that."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._failed_by: dict[Key, WorkerId] = {}
        self._tallies: dict[WorkerId, set[Key]] = {}

    @property
    def has_suspects(self) -> bool:
        return bool(self._failed_by)

    def failed(self, worker: WorkerId, job_id: JobId, index: Index) -> None:
        if not self.most:
            return
        self._failed_by[(job_id, index)] = worker
        if len(self._failed_by) > KEPT:
            del self._failed_by[next(iter(self._failed_by))]

    def succeeded(self, worker: WorkerId, job_id: JobId, index: Index) -> WorkerId | None:
        """A task went well. The worker that is to be given nothing more because of it, if any."""
        self._tallies.pop(worker, None)
        culprit = self._failed_by.pop((job_id, index), None)
        if culprit is None or culprit == worker:
            return None
        tally = self._tallies.setdefault(culprit, set())
        tally.add((job_id, index))
        if len(tally) < self.most:
            return None
        del self._tallies[culprit]
        return culprit

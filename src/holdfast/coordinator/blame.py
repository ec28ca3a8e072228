"""Which worker fails what others do well. One that fails task after task, with functions that
succeed elsewhere, is cordoned, so that it does not eat the budgets of everything that waits."""

from msgspec import Struct, field

from holdfast.core.ids import Index, JobId, WorkerId

FAILED_IN_A_ROW = 5
"""How many different tasks a worker may fail one after the other. Zero: it is never cordoned."""

KEPT = 64

Work = tuple[str, str]
"""What ran: its kind and target."""


class _Record(Struct):
    tasks: set[tuple[JobId, Index]] = field(default_factory=set)
    work: set[Work] = field(default_factory=set)


class Blame:
    """Safe to lose. A function that fails everywhere is not the fault of any machine: only those
    that succeeded on another worker since are held against one."""

    def __init__(self, most: int = FAILED_IN_A_ROW) -> None:
        self.most = most
        self._failing: dict[WorkerId, _Record] = {}
        self._fine: dict[Work, dict[WorkerId, None]] = {}

    def succeeded(self, worker: WorkerId, work: Work) -> None:
        """Whatever it failed before, it does something well."""
        self._failing.pop(worker, None)
        where = self._fine.get(work)
        if where is None:
            if len(self._fine) >= KEPT:
                self._fine.pop(next(iter(self._fine)))
            where = self._fine[work] = {}
        if worker not in where:
            where[worker] = None
            if len(where) > KEPT:
                where.pop(next(iter(where)))

    def failed(self, worker: WorkerId, work: Work, job_id: JobId, index: Index) -> str:
        """Why this worker should be given nothing more; empty where there is no reason."""
        if not self.most:
            return ""
        record = self._failing.setdefault(worker, _Record())
        record.tasks.add((job_id, index))
        record.work.add(work)
        others = self._fine.get(work, {})
        others.pop(worker, None)
        if len(record.tasks) < self.most:
            return ""
        elsewhere = [what for what in record.work if self._fine.get(what)]
        if not elsewhere:
            return ""
        count, target = len(record.tasks), elsewhere[0][1]
        self._failing.pop(worker)
        return f"it failed {count} tasks in a row, while others run {target} well"

    def forget(self, worker: WorkerId) -> None:
        self._failing.pop(worker, None)

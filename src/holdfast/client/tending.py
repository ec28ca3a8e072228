"""What a program asks about work that is there already, and about the bounds that hold for it."""

from datetime import datetime
from typing import Unpack

from holdfast.client.backend import Backend
from holdfast.client.edits import Terms, edits_from
from holdfast.client.errors import Refused
from holdfast.client.limits import Limit, named
from holdfast.client.ties import JobNamed, job_id_of
from holdfast.core.ids import Index, JobId, parse_task_name
from holdfast.core.transactions import Transaction
from holdfast.wire.amounts import Duration, duration_ms, wall_ms, whole
from holdfast.wire.bodies import NewLimit
from holdfast.wire.rates import rate_of


class Tending:
    """Half of `Holdfast`: sending back, moving and stopping tasks, limits, and what happened."""

    _backend: Backend

    def retry(self, job: JobNamed, /, *indices: int, **terms: Unpack[Terms]) -> int:
        """Send quarantined tasks back with fresh budgets; how many went. A job that has ended may
        come back under other terms: `retry(job, retries=5, memory="4Gi")`."""
        chosen = tuple(Index(whole(index, "index")) for index in indices)
        return self._backend.retry(job_id_of(job), chosen, edits_from(terms))

    def reschedule(
        self, task_id: str, *, delay: Duration | None = None, not_before: datetime | None = None
    ) -> None:
        """Move a waiting task: to after `delay`, or to a calendar instant; neither means now."""
        job_id, index = _parsed(task_id)
        self._backend.reschedule(
            job_id,
            index,
            delay_ms=duration_ms(delay, "delay"),
            not_before_wall=wall_ms(not_before, "not_before"),
        )

    def cancel(self, task_id: str, reason: str = "") -> bool:
        """Stop one task (`JOB/INDEX`); its job goes on. False when it had ended already."""
        job_id, index = _parsed(task_id)
        return self._backend.cancel_task(job_id, index, reason)

    def transactions(self, limit: int = 100) -> list[Transaction]:
        """What happened last, oldest first: each accepted command with what it made true."""
        return self._backend.transactions(limit)

    def refusals(self) -> dict[str, int]:
        """How often something was refused since the coordinator began, by reason code."""
        return self._backend.refusals()

    # Bounds that hold across jobs.

    def limits(self) -> list[Limit]:
        """Every limit that is set."""
        return self._backend.limits.all()

    def set_limit(
        self, target: str, *, running: int = 0, rate: str = "", weight: int = 1
    ) -> None:
        """Bound `namespace/NAME`, `user/NAME` or `key/NAME`: so many at once, so many starts in a
        while (`10/1m`), and for a namespace its weight in fair shares."""
        rate_of(rate)
        bounds = NewLimit(running=whole(running, "running"), rate=rate, weight=weight)
        self._backend.limits.set(*named(target), bounds)

    def clear_limit(self, target: str) -> bool:
        """Bound it no more; False where it was not."""
        return self._backend.limits.clear(*named(target))


def _parsed(task_id: str) -> tuple[JobId, Index]:
    parsed = parse_task_name(task_id)
    if parsed is None:
        raise Refused("invalid", f"{task_id!r} is not a task; write JOB/INDEX, such as 12/0")
    return parsed

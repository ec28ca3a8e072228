"""What a program asks about work that is there already, and about the bounds that hold for it."""

from datetime import datetime
from typing import Unpack

from msgspec import UNSET, UnsetType

from holdfast.client.backend import Backend
from holdfast.client.edits import Terms, edits_from
from holdfast.client.errors import Refused
from holdfast.client.explained import Explained
from holdfast.client.limits import Limit, named
from holdfast.client.ties import JobNamed, job_id_of
from holdfast.core.ids import Index, JobId, parse_task_name
from holdfast.core.transactions import Transaction
from holdfast.wire.amounts import Duration, duration_ms, wall_ms, whole
from holdfast.wire.bodies import NewLimit
from holdfast.wire.limits import changes_of


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

    # Why it is not running.

    def explain(self, what: JobNamed, /) -> Explained:
        """Why a job, or a task (`JOB/INDEX`), is where it is: everything that holds it up, the
        nearest worker, what would help and what to type. `print` shows it in words."""
        named_task = parse_task_name(what) if isinstance(what, str) and "/" in what else None
        if isinstance(what, str) and "/" in what and named_task is None:
            raise _no_task(what)
        if named_task is not None:
            return self._backend.reasons.of(*named_task)
        return self._backend.reasons.of(job_id_of(what), None)

    def waiting(self) -> dict[str, int]:
        """How many tasks wait, by the code of the most telling reason why."""
        return self._backend.reasons.waiting()

    # Bounds that hold across jobs.

    def limits(self) -> list[Limit]:
        """Every limit that is set."""
        return self._backend.limits.all()

    def set_limit(
        self,
        target: str,
        *,
        running: int | UnsetType | None = UNSET,
        rate: str | UnsetType | None = UNSET,
        weight: int | UnsetType | None = UNSET,
        cpus: float | UnsetType | None = UNSET,
        memory: int | str | UnsetType | None = UNSET,
        gpus: int | UnsetType | None = UNSET,
        resources: dict[str, float | None] | None = None,
    ) -> None:
        """Bound `namespace/NAME`, `user/NAME` or `key/NAME`: so many tasks at once, so much of a
        resource that they take together, so many starts in a while (`10/1m`), and for a namespace
        its weight in fair shares. What is not named stays as it was; None takes a bound away."""
        body = NewLimit(
            running=running if running in (UNSET, None) else whole(running, "running"),
            rate=rate,
            weight=weight,
            cpus=cpus,
            memory=memory if memory in (UNSET, None) else str(memory),
            gpus=gpus if gpus in (UNSET, None) else whole(gpus, "gpus"),
            resources=resources or {},
        )
        changes_of(body)
        self._backend.limits.set(*named(target), body)

    def clear_limit(self, target: str) -> bool:
        """Bound it no more; False where it was not."""
        return self._backend.limits.clear(*named(target))


def _parsed(task_id: str) -> tuple[JobId, Index]:
    parsed = parse_task_name(task_id)
    if parsed is None:
        raise _no_task(task_id)
    return parsed


def _no_task(text: str) -> Refused:
    return Refused("invalid", f"{text!r} is not a task; write JOB/INDEX, such as 12/0")

"""What a program asks about work that is there already, and about the bounds that hold for it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Unpack

from msgspec import UNSET, UnsetType

from holdfast.client.auditing import Auditing
from holdfast.client.backend import Backend
from holdfast.client.edits import Terms, edits_from
from holdfast.client.effects import OwedEffect
from holdfast.client.errors import Refused
from holdfast.client.explained import Explained
from holdfast.client.health import Health
from holdfast.client.limits import Limit, named
from holdfast.client.quarantining import Quarantining
from holdfast.client.runtimes import Runtimes
from holdfast.client.stalls import Approved, StallFound
from holdfast.client.ties import JobNamed, job_id_of
from holdfast.core.ids import Index, JobId, parse_task_name
from holdfast.core.owed import KINDS
from holdfast.core.transactions import Transaction
from holdfast.wire.amounts import Duration, duration_ms, text, wall_ms, whole
from holdfast.wire.bodies import ChosenEffects, ChosenStalls, NewLimit
from holdfast.wire.limits import changes_of
from holdfast.wire.wanted import EFFECT_STATES, WantedEffects, effect_states


class Tending(Quarantining, Auditing):
    """Half of `Holdfast`: sending back, moving and stopping tasks, what they owe, limits, and what
    happened."""

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

    def resume(self, reason: str = "") -> bool:
        """Let a log work that was forked or salvaged; False where it was at work."""
        return self._backend.resume(text(reason, "reason"))

    def refusals(self) -> dict[str, int]:
        """How often something was refused since the coordinator began, by reason code."""
        return self._backend.refusals()

    # What commits owe.

    def effects(
        self, *, state: str = "", sink: str = "", job: JobNamed | None = None, kind: str = ""
    ) -> list[OwedEffect]:
        """What commits owe and is not settled, in the order of the commits. `state` is `parked`,
        `waiting`, `ready` or `delivering`, `kind` is `effect`, `file` or `block`; empty for all."""
        wanted = WantedEffects(
            states=effect_states(_one_of(state.upper(), EFFECT_STATES, "state")),
            sink=text(sink, "sink"),
            job="" if job is None else job_id_of(job),
            kind="".join(_one_of(kind, KINDS, "kind")),
        )
        return self._backend.effects.all(wanted)

    def retry_effects(
        self,
        *ids: str,
        sink: str = "",
        job: JobNamed | None = None,
        kind: str = "",
        every: bool = False,
        reason: str = "",
    ) -> int:
        """Have effects (`"12/3.0"`) tried again at once, each with a fresh budget: those that are
        named, or the parked ones of a sink, a job or a kind, or `every` parked one. How many went.
        A block is never run again."""
        return self._backend.effects.retry(_chosen(ids, sink, job, kind, every, reason))

    def discard_effects(
        self,
        *ids: str,
        reason: str,
        sink: str = "",
        job: JobNamed | None = None,
        kind: str = "",
        every: bool = False,
    ) -> int:
        """Give effects up, for a reason that is recorded: they are owed no more, and have perhaps
        never happened. Chosen as for `retry_effects`; how many there were."""
        if not text(reason, "reason").strip():
            raise ValueError("say why they are given up: reason=… is recorded")
        return self._backend.effects.discard(_chosen(ids, sink, job, kind, every, reason))

    # What hangs.

    def health(self) -> Health:
        """Whether everything that must hold does, by the last check, and how the disk is."""
        return self._backend.health()

    def stalls(self) -> list[StallFound]:
        """What hangs, the oldest first: each with since when, why, and what to type about it."""
        return self._backend.stalls.all()

    def approve_stall(self, *ids: str, every: bool = False, reason: str = "") -> list[Approved]:
        """End attempts that hang (`"12/3:2"`), or `every` one, within their budgets. What became of
        each: a task that has moved on is left alone."""
        if bool(ids) == every:
            raise ValueError("name what hangs, such as '12/3:2', or every=True for all of it")
        chosen = [text(each, "id") for each in ids]
        body = ChosenStalls(ids=chosen, every=every, reason=text(reason, "reason"))
        return self._backend.stalls.approve(body)

    # What is kept up.

    @property
    def runtimes(self) -> Runtimes:
        """Functions that are declared and kept up by a server."""
        return Runtimes(self._backend.runtimes)

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


def _one_of(word: str, known: Sequence[str], what: str) -> tuple[str, ...]:
    """The word, where there is one and it is known."""
    if not word:
        return ()
    if word not in known:
        shown = ", ".join(each.lower() for each in known)
        raise ValueError(f"{what}={word.lower()!r} is none of {shown}")
    return (word,)


def _chosen(
    ids: tuple[str, ...], sink: str, job: JobNamed | None, kind: str, every: bool, reason: str
) -> ChosenEffects:
    return ChosenEffects(
        ids=[text(each, "id") for each in ids],
        sink=text(sink, "sink"),
        job="" if job is None else job_id_of(job),
        kind="".join(_one_of(kind, KINDS, "kind")),
        every=every,
        reason=text(reason, "reason"),
    )


def _parsed(task_id: str) -> tuple[JobId, Index]:
    parsed = parse_task_name(task_id)
    if parsed is None:
        raise _no_task(task_id)
    return parsed


def _no_task(text: str) -> Refused:
    return Refused("invalid", f"{text!r} is not a task; write JOB/INDEX, such as 12/0")

"""What becomes of entries that commits owe. A repeat adds nothing; what was settled stays so."""

from collections.abc import Iterable
from typing import Final

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.debts import Owing
from holdfast.core.decide.circuits import deliveries_confirmed, delivery_failed
from holdfast.core.decide.jobs import unknown
from holdfast.core.decide.wishes import LARGEST
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import Index, Instant, JobId, effect_name
from holdfast.core.job import state_of
from holdfast.core.owed import BLOCK, EFFECT, DebtName
from holdfast.core.state import State
from holdfast.core.task import TaskState

ERROR_MOST: Final = 2_000
"""So much of an error is written down: it stands in the log and in memory."""


def confirm(state: State, command: c.ConfirmDeliveries, now: Instant) -> Decision:
    """What has happened has happened, also where it had been parked by then. The last entry of a
    task makes it done. The answer is how many entries this settled."""
    found = _owed(state, command.names)
    if isinstance(found, Refused):
        return found
    events: list[e.AnyEvent] = []
    for job_id, owings in _by_job(found).items():
        events.append(e.EffectsDelivered(job_id=job_id, settled=_settled(owings)))
        events.extend(_done(state, job_id, owings))
    if state.circuits:
        effects = [owing for owing in found if owing.debt.kind == EFFECT]
        events.extend(
            deliveries_confirmed(state, ((o.debt.place, _short(o.name)) for o in effects))
        )
    return Accepted(tuple(events), len(found))


def fail(state: State, command: c.FailDelivery, now: Instant) -> Decision:
    """Another try after a while, or none: a budget that is spent parks the entry, and so does a
    failure that no try can mend. A block is never tried again."""
    if not 0 <= command.delay_ms <= LARGEST:
        return Refused(Reason.INVALID, "a try cannot come before the one that failed")
    found = _owed(state, (command.name,))
    if isinstance(found, Refused):
        return found
    if not found or found[0].debt.parked:
        return Accepted(())
    name, debt = command.name, found[0].debt
    tries, error = debt.tries + 1, command.error[:ERROR_MOST]
    strained: tuple[e.AnyEvent, ...] = ()
    if debt.kind == EFFECT:
        cause = f"effect {_short(name)} failed: {error}"
        strained = delivery_failed(state, debt.place, command.circuit, cause, now)
    if command.is_final or tries >= command.most_tries or debt.kind == BLOCK:
        parked = e.Parked(name.index, name.number, tries, error)
        return Accepted((e.EffectsParked(job_id=name.job_id, parked=(parked,)), *strained))
    failed = e.DeliveryFailed(
        job_id=name.job_id,
        index=name.index,
        number=name.number,
        tries=tries,
        not_before=Instant(now + command.delay_ms),
        error=error,
    )
    return Accepted((failed, *strained))


def park(state: State, command: c.ParkEffects, now: Instant) -> Decision:
    found = _owed(state, command.names)
    if isinstance(found, Refused):
        return found
    fresh = [owing for owing in found if not owing.debt.parked]
    return Accepted(parked_events(fresh, command.error), len(fresh))


def parked_events(owings: Iterable[Owing], error: str) -> tuple[e.AnyEvent, ...]:
    """These are parked, all for the same reason; no try was made that failed."""
    told = error[:ERROR_MOST]
    return tuple(
        e.EffectsParked(
            job_id=job_id,
            parked=tuple(
                e.Parked(o.name.index, o.name.number, o.debt.tries, told) for o in chosen
            ),
        )
        for job_id, chosen in _by_job(owings).items()
    )


def retry(state: State, command: c.RetryEffects, now: Instant) -> Decision:
    """Whatever failed or is parked goes at once, as if it were new; the answer is how many."""
    found = _owed(state, command.names)
    if isinstance(found, Refused):
        return found
    for owing in found:
        if owing.debt.kind == BLOCK:
            told = "is a block of its task, which runs at most once: look at what it has done, then"
            entry = effect_name(owing.name.job_id, owing.name.index, owing.name.number)
            typed = f"`holdfast effect discard {entry} --reason WHY`"
            return Refused(Reason.INVALID_TRANSITION, f"{_called(owing)} {told} {typed}")
    stuck = [o for o in found if o.debt.parked or o.debt.tries or o.debt.not_before]
    events = tuple(
        e.EffectsRetried(job_id=job_id, settled=_settled(owings))
        for job_id, owings in _by_job(stuck).items()
    )
    return Accepted(events, len(stuck))


def discard(state: State, command: c.DiscardEffects, now: Instant) -> Decision:
    """An operator's word settles an entry like a delivery does. What a task is still doing cannot
    be given up: only a block that was parked."""
    found = _owed(state, command.names)
    if isinstance(found, Refused):
        return found
    for owing in found:
        if owing.debt.kind == BLOCK and not owing.debt.parked:
            told = f"{_called(owing)} is a block that its task has not left"
            return Refused(Reason.INVALID_TRANSITION, told)
    events: list[e.AnyEvent] = []
    for job_id, owings in _by_job(found).items():
        reason = command.reason[:ERROR_MOST]
        given_up = e.EffectsDiscarded(job_id=job_id, settled=_settled(owings), reason=reason)
        events.append(given_up)
        events.extend(_done(state, job_id, owings))
    return Accepted(tuple(events), len(found))


def _owed(state: State, names: Iterable[DebtName]) -> list[Owing] | Refused:
    """Those of the names that are still owed, each once."""
    found: dict[DebtName, Owing] = {}
    for name in names:
        owing = state.debts.find(name)
        if owing is not None:
            found[name] = owing
            continue
        refusal = _never_owed(state, name)
        if refusal is not None:
            return refusal
    return list(found.values())


def _never_owed(state: State, name: DebtName) -> Refused | None:
    """Why nothing of this name can ever have been owed, as far as is known."""
    job = state.jobs.get(name.job_id)
    if job is None:
        return unknown(state, name.job_id)
    if not 0 <= name.index < job.count:
        return Refused(Reason.NOT_FOUND, f"job {job.job_id} has no task {name.index}")
    if state_of(job, name.index) not in (TaskState.COMMITTED, TaskState.SUCCEEDED):
        told = f"task {job.job_id}/{name.index} has not committed"
        return Refused(Reason.INVALID_TRANSITION, told)
    return None


def _by_job(owings: Iterable[Owing]) -> dict[JobId, list[Owing]]:
    grouped: dict[JobId, list[Owing]] = {}
    for owing in owings:
        grouped.setdefault(owing.name.job_id, []).append(owing)
    return grouped


def _settled(owings: Iterable[Owing]) -> tuple[e.Settled, ...]:
    return tuple(e.Settled(owing.name.index, owing.name.number) for owing in owings)


def _done(state: State, job_id: JobId, owings: Iterable[Owing]) -> tuple[e.AnyEvent, ...]:
    """The tasks that owe nothing once these are settled."""
    settled: dict[Index, int] = {}
    for owing in owings:
        settled[owing.name.index] = settled.get(owing.name.index, 0) + 1
    tasks = state.job_of(job_id).tasks or {}
    done = tuple(index for index, count in settled.items() if len(tasks[index].owed) == count)
    return (e.TasksDone(job_id=job_id, indices=done),) if done else ()


def _called(owing: Owing) -> str:
    return f"effect {_short(owing.name)}"


def _short(name: DebtName) -> str:
    return effect_name(name.job_id, name.index, name.number)

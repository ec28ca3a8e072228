"""How an entry that a commit owes stands: on its way, waiting for something, or parked.

Pure, like all that explains. Whoever deals entries out knows more than the log does: who has one in
hand, which sinks there are and who could deliver. `standing_of` tells what the log alone tells.
"""

from collections.abc import Iterable, Iterator
from shlex import quote
from typing import Final

from msgspec import Struct

from holdfast.core.circuit import SINK, Circuit, CircuitState, circuit_id
from holdfast.core.debts import Owing
from holdfast.core.ids import NEVER, Instant, effect_name
from holdfast.core.owed import (
    BLOCK,
    DELIVERING,
    EFFECT,
    OWED_STATES,
    PARKED,
    READY,
    WAITING,
    Debt,
    DebtName,
)
from holdfast.core.state import State
from holdfast.scheduler.reasons import Reason, sentence, span

TOLD_MOST: Final = 10
"""So many entries of one task are told one by one."""


class Standing(Struct, frozen=True, kw_only=True):
    """One entry at one moment. `why` is empty where nothing holds it up; `command` is what to type
    about it; `until` is the log time of its next try, where it has one."""

    effect: str
    what: str
    state: str
    code: str
    why: str = ""
    command: str = ""
    until: Instant = NEVER


def called(name: DebtName) -> str:
    return effect_name(name.job_id, name.index, name.number)


def standing_of(state: State, owing: Owing, now: Instant, holder: str = "") -> Standing:
    """What the log tells of it; `holder` is who has it in hand, where anybody knows."""
    debt, name, debts = owing.debt, called(owing.name), state.debts
    if debt.parked:
        return _parked(owing)
    if debt.kind == BLOCK:
        why = "its task has not left the block"
        task = name.rpartition(".")[0]
        command = f"holdfast task show {task}"
        return _stands(owing, DELIVERING, code="in_block", why=why, command=command)
    if owing.is_away:
        why = f"worker {holder} delivers it" if holder else "it is being delivered"
        return _stands(owing, DELIVERING, code="delivering", why=why)
    if debt.not_before > now:
        why, command = _failed(debt), f"holdfast effect retry {name}"
        return _stands(
            owing, WAITING, code="effect_backing_off", why=why, command=command,
            until=debt.not_before,
        )  # fmt: skip
    head = debts.place_of(owing).lines[debt.key].head() if debt.key else owing
    if head is not owing:
        first = called(head.name)
        why, command = f"it comes after {first}, with the same key", f"holdfast effect show {first}"
        return _stands(owing, WAITING, code="effect_behind", why=why, command=command)
    circuit = state.circuits.get((SINK, debt.place)) if debt.kind == EFFECT else None
    if circuit is not None and circuit.state is not CircuitState.CLOSED:
        return _resting(owing, circuit)
    return _stands(owing, READY, code="delivering", why=_failed(debt) if debt.tries else "")


def _resting(owing: Owing, circuit: Circuit) -> Standing:
    """Its sink failed so often that it is left alone for a while."""
    name = circuit_id(*circuit.key)
    why = f"circuit {name} is {circuit.state.lower().replace('_', '-')}: {circuit.cause}"
    command = f"holdfast circuit close {quote(name)}"
    until = circuit.until if circuit.state is CircuitState.OPEN else NEVER
    return _stands(owing, WAITING, code="circuit_open", why=why, command=command, until=until)


def _parked(owing: Owing) -> Standing:
    debt, name = owing.debt, called(owing.name)
    why = _failed(debt) if debt.tries else f"nobody can deliver it: {debt.error}"
    command = f"holdfast effect retry {name}"
    if debt.kind == BLOCK:
        why = f"it began and was not left as it should be: {debt.error}"
        command = f"holdfast effect discard {name} --reason 'looked at it'"
    return _stands(owing, PARKED, code="effect_parked", why=why, command=command)


def _failed(debt: Debt) -> str:
    tries = "1 try" if debt.tries == 1 else f"{debt.tries} tries"
    return f"{tries} failed, the last with: {debt.error}"


def without_sink(owing: Owing) -> Standing:
    """Its sink was taken out of the settings."""
    place = owing.debt.place
    why = (
        f"there is no sink called {place!r} any more: put it back into the settings, or into "
        "open(sinks=...), or discard what it is owed"
    )
    command = f"holdfast effect list --sink {quote(place)}"
    return _stands(owing, WAITING, code="no_sink", why=why, command=command)


def without_carrier(owing: Owing, *, is_ours: bool) -> Standing:
    """Nobody is there who could deliver it. `is_ours`: the server's own process would."""
    why, command = "no worker is there that could deliver it", "holdfast worker start"
    if owing.debt.kind != EFFECT:
        why = f"no worker is there that has {owing.debt.place}"
    elif is_ours:
        why, command = "the server's delivery process is not there", "holdfast doctor"
    return _stands(owing, WAITING, code="no_carrier", why=why, command=command)


def _stands(
    owing: Owing, state: str, *, code: str, why: str = "", command: str = "",
    until: Instant = NEVER,
) -> Standing:  # fmt: skip
    return Standing(
        effect=called(owing.name), what=what_of(owing.debt), state=state, code=code, why=why,
        command=command, until=until,
    )  # fmt: skip


def what_of(debt: Debt) -> str:
    """`effect for ledger`, `file /out/report.txt`, `block`."""
    if debt.kind == BLOCK:
        return "block"
    return f"effect for {debt.place}" if debt.kind == EFFECT else f"file {debt.key}"


def owed_reasons(
    job_id: str, owed: Iterable[Standing], now: Instant, wall: Instant
) -> Iterator[Reason]:
    """Each entry with what holds it up, those that somebody must look at first."""
    ordered = sorted(owed, key=lambda one: (-OWED_STATES.index(one.state), one.code))
    if not ordered:
        said = "it has a result, and what that owes others is being delivered"
        yield Reason(code="delivering", sentence=sentence(said))
    for one in ordered[:TOLD_MOST]:
        yield _reason(one, now, wall)
    more = ordered[TOLD_MOST:]
    if more:
        yield Reason(
            code=more[0].code,
            sentence=f"It owes {len(more)} more.",
            command=f"holdfast effect list --job {quote(job_id)}",
        )


def _reason(one: Standing, now: Instant, wall: Instant) -> Reason:
    said = f"{one.what} ({one.effect}) {_SAID[one.state]}"
    said += f": {one.why}" if one.why else ""
    until = NEVER
    if one.until != NEVER:
        said += f"; it is tried again in {span(one.until - now)}"
        until = Instant(wall + one.until - now)
    return Reason(code=one.code, sentence=sentence(said), command=one.command, until=until)


_SAID: Final = {
    READY: "is about to be delivered",
    DELIVERING: "is under way",
    WAITING: "waits",
    PARKED: "is parked",
}

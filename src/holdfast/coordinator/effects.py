"""What commits owe, as people and programs look at it: lists, one entry with its tries, totals."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.coordinator.entries import idempotency_key
from holdfast.coordinator.history import Past, last_end
from holdfast.coordinator.inspect import HistoryGone, Told
from holdfast.coordinator.views import View, Wall, rfc3339, time_of
from holdfast.core import events as e
from holdfast.core.debts import Debts, Owing
from holdfast.core.ids import NOWHERE, Index, Position, parse_effect_name, task_name
from holdfast.core.job import Job
from holdfast.core.owed import BLOCK, FILE, KINDS, DebtName, Entry
from holdfast.core.transactions import transaction_of
from holdfast.scheduler.owing import Standing, called
from holdfast.wire.bodies import ChosenEffects
from holdfast.wire.delivery import Staged
from holdfast.wire.wanted import WantedEffects

DELIVERED: Final = "DELIVERED"
DISCARDED: Final = "DISCARDED"
SETTLED: Final = "SETTLED"
"""What an entry that is owed no more is told as; the last where the log does not say how."""
MOST_READ: Final = 5_000
"""So many records after the commit, and before the end of the log, are looked through for tries."""
ORDER_MOST: Final = 10_000
"""So many entries are retried or discarded by one record."""

Stands = Callable[[Owing], Standing]
LogAt = Callable[[Position], str]


def effect_view(owing: Owing, stands: Standing, wall: Wall) -> View:
    """An entry at a glance, from memory alone."""
    name, debt = owing.name, owing.debt
    return {
        "id": called(name),
        "job_id": name.job_id,
        "task": task_name(name.job_id, name.index),
        "kind": debt.kind,
        "place": debt.place or None,
        "key": debt.key or None,
        "state": stands.state,
        "tries": debt.tries,
        "next_at": time_of(stands.until, wall),
        "error": debt.error or None,
        "code": stands.code,
        "why": stands.why or None,
        "command": stands.command or None,
        "position": int(owing.position),
    }


def chosen_views(
    owings: Iterable[Owing], wanted: WantedEffects, stands: Stands, wall: Wall
) -> Iterator[View]:
    """Those of them that are wanted."""
    for owing in owings:
        if wanted.takes(owing):
            standing = stands(owing)
            if not wanted.states or standing.state in wanted.states:
                yield effect_view(owing, standing, wall)


def owed_by_task(debts: Debts, job: Job, index: Index, stands: Stands, wall: Wall) -> list[View]:
    """What one task still owes, by number."""
    task = (job.tasks or {}).get(index)
    names = [] if task is None else [DebtName(job.job_id, index, d.number) for d in task.owed]
    found = [owing for name in names if (owing := debts.find(name)) is not None]
    return [effect_view(owing, stands(owing), wall) for owing in found]


class Settlement(Struct, frozen=True):
    """One thing that happened to an entry after its commit, as the log has it."""

    position: int
    time: str
    action: str
    actor: str
    reason: str
    details: dict[str, Any]


def effect_detail(
    past: Past, log_at: LogAt, job: Job, name: DebtName, view: View | None, last: int
) -> View | None:
    """An entry with its body and its tries, read from the log; None where the task's commit has no
    such entry. `view` is what memory tells, where it is still owed, and `log_at` which log
    wrote a position."""
    position = last_end(job, name.index)
    commit = None if position == NOWHERE else _commit_at(past, position, name)
    if commit is None:
        return None
    told, owed = commit
    if name.number >= len(owed):
        return None
    entry = owed[name.number]
    history, is_complete = tries_of(past, name, position, last)
    return {
        **(view or _settled_view(name, entry, position, history)),
        "idempotency_key": idempotency_key(log_at(position), name, position),
        "committed_at": rfc3339(told.wall(told.record.at)),
        "body": body_of(entry),
        "body_bytes": len(entry.body),
        "history": [msgspec.structs.asdict(each) for each in history],
        "history_complete": is_complete,
    }


def _commit_at(
    past: Past, position: Position, name: DebtName
) -> tuple[Told, tuple[Entry, ...]] | None:
    told = past.told(position)
    for event in told.record.events:
        if not isinstance(event, e.TaskCommitted) or event.job_id != name.job_id:
            continue
        if event.commit.index == name.index:
            return told, event.owed
    return None


def _settled_view(
    name: DebtName, entry: Entry, position: Position, history: list[Settlement]
) -> View:
    ends = {"effect_delivered": DELIVERED, "effect_discarded": DISCARDED}
    state = next((ends[each.action] for each in reversed(history) if each.action in ends), SETTLED)
    return {
        "id": called(name),
        "job_id": name.job_id,
        "task": task_name(name.job_id, name.index),
        "kind": entry.kind,
        "place": entry.place or None,
        "key": entry.key or None,
        "state": state,
        "tries": sum(each.action in ("delivery_failed", "effect_parked") for each in history),
        "next_at": None,
        "error": None,
        "code": None,
        "why": None,
        "command": None,
        "position": int(position),
    }


def body_of(entry: Entry) -> Any:
    """What the entry holds, as JSON can have it: bytes as base64, keys as text."""
    if entry.kind == BLOCK:
        return None
    try:
        if entry.kind == FILE:
            staged = msgspec.msgpack.decode(entry.body, type=Staged)
            return msgspec.structs.asdict(staged)
        return msgspec.to_builtins(msgspec.msgpack.decode(entry.body), str_keys=True)
    except (msgspec.MsgspecError, TypeError, ValueError):
        # Whatever wrote it, whoever looks is told what is there.
        return {"bytes": msgspec.to_builtins(entry.body[:1_024])}


def tries_of(
    past: Past, name: DebtName, position: Position, last: int
) -> tuple[list[Settlement], bool]:
    """What happened to an entry after its commit, oldest first, and whether that is all. A log that
    has grown long since is looked through at both ends."""
    first = position + 1
    middle = min(last, position + MOST_READ)
    spans = [(first, middle)]
    if last > middle:
        spans.append((max(middle + 1, last - MOST_READ + 1), last))
    is_complete = last <= middle + MOST_READ
    found: list[Settlement] = []
    try:
        for begin, end in spans:
            for told in past.records(begin, end) if begin <= end else ():
                found += _about(told, name)
    except (HistoryGone, FileNotFoundError):
        # Old history is dropped while it is read; what was found is true.
        is_complete = False
    return found, is_complete


def _about(told: Told, name: DebtName) -> Iterator[Settlement]:
    if not any(getattr(event, "job_id", None) == name.job_id for event in told.record.events):
        return
    transaction = transaction_of(told.record, told.position)
    for action in transaction.actions:
        if action.entity == called(name):
            details = dict(action.details)
            not_before = details.get("not_before")
            if isinstance(not_before, int):
                details["not_before"] = rfc3339(told.wall(not_before))
            yield Settlement(
                int(told.position),
                rfc3339(told.wall(transaction.time)),
                action.action,
                transaction.actor,
                transaction.reason or str(details.pop("reason", "")),
                details,
            )


class Unclear(ValueError):
    """An order that does not say what it is about."""


class Chosen(Struct, frozen=True):
    """What an order is about, and how much more would be."""

    names: tuple[DebtName, ...]
    left: int = 0


def chosen_by(debts: Debts, order: ChosenEffects, *, retries: bool) -> Chosen:
    """The entries that are named; else those parked that fit, the oldest first and not too many at
    once. Blocks are retried by nobody, so they are not chosen for that."""
    wanted = WantedEffects(sink=order.sink, job=order.job, kind=order.kind)
    is_narrowed = wanted != WantedEffects()
    if order.ids:
        if is_narrowed or order.every:
            raise Unclear("name effects, or choose parked ones by sink, job or kind: not both")
        return Chosen(tuple(map(named, order.ids)))
    if not is_narrowed and not order.every:
        raise Unclear("name effects, choose parked ones by sink, job or kind, or ask for every one")
    if order.kind not in ("", *KINDS):
        raise Unclear(f"kind={order.kind[:40]!r} is none of {', '.join(KINDS)}")
    found = [
        owing
        for owing in debts
        if owing.debt.parked and wanted.takes(owing)
        if not (retries and owing.debt.kind == BLOCK)
    ]
    found.sort(key=lambda owing: owing.order)
    names = tuple(owing.name for owing in found[:ORDER_MOST])
    return Chosen(names, len(found) - len(names))


def named(text: str) -> DebtName:
    """The entry that is called so."""
    parsed = parse_effect_name(text)
    # No log has as many tasks as that.
    if parsed is None or max(parsed[1:]) >= 1 << 53:
        raise Unclear(f"{text[:80]!r} is no effect; write JOB/INDEX.N, such as 12/3.0")
    return DebtName(*parsed)

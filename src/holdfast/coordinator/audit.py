"""The audit trail: one line for each move of a task, and one for whatever else a record did.

It is derived from the log when somebody looks and never stored: there is one trail. What was
refused never came into the log; it is told from the notes beside it, as far as they reach.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final

from msgspec import Struct

from holdfast.coordinator.inspect import Told
from holdfast.coordinator.refusals import Refusal
from holdfast.coordinator.views import View, rfc3339
from holdfast.core import events as e
from holdfast.core.action import Action
from holdfast.core.ids import parse_task_name
from holdfast.core.moves import TELLERS, Move
from holdfast.core.transactions import RENDERERS
from holdfast.wire.wanted_entries import REFUSED, VALIDATED, WantedEntries

MACHINE: Final = "state_machine"
LOG: Final = "log"
MOST_DEEDS: Final = 100
"""So many actions of one record are told one by one; more are counted."""

CHUNK: Final = 200
"""So many records are in memory at once while a list is made."""
ENDLESS: Final = 1 << 62

UNTOLD: Final = frozenset({e.RequestNoted})
"""That a request is remembered belongs to whatever was asked for."""


def entries_of(told: Told) -> Iterator[View]:
    """What one record did, line by line: the moves of tasks, then all else in one."""
    record = told.record
    deeds: list[Action] = []
    for event in record.events:
        tell = TELLERS.get(type(event))
        moves = [] if tell is None else list(tell(event, record))
        yield from (_moved(told, move) for move in moves)
        if not moves and type(event) not in UNTOLD:
            deeds.extend(RENDERERS[type(event)](event, record))
    if deeds:
        yield _did(told, deeds)


def _did(told: Told, deeds: list[Action]) -> View:
    jobs = [event.job_id for event in told.record.events if hasattr(event, "job_id")]
    return {
        **_head(told, told.record.command, LOG),
        "job_id": jobs[0] if jobs else None,
        "task_id": None,
        "from": None,
        "to": None,
        "metadata": {
            "actions": [f"{each.action} {each.entity}" for each in deeds[:MOST_DEEDS]],
            "count": len(deeds),
        },
    }


def _moved(told: Told, move: Move) -> View:
    return {
        **_head(told, move.action, MACHINE),
        "reason": move.reason,
        "job_id": move.job_id,
        "task_id": move.tasks,
        "from": move.source,
        "to": move.target,
        "metadata": dict(move.metadata),
    }


def _head(told: Told, action: str, source: str) -> View:
    record = told.record
    return {
        "position": int(told.position),
        "at": rfc3339(told.wall(record.at)),
        "source": source,
        "action": action,
        "status": VALIDATED,
        "command": record.command,
        "operator": record.actor,
        "reason": record.reason,
        "request_id": record.request_id,
    }


def refused_entry(refusal: Refusal) -> View:
    """A refusal in the same form. It has no position of its own: `after` is that of the last record
    before it."""
    is_move = bool(refusal.source and refusal.target)
    named = parse_task_name(refusal.subject)
    action = f"transition_{refusal.source}_to_{refusal.target}" if is_move else refusal.command
    return {
        "position": None,
        "at": rfc3339(refusal.at),
        "source": MACHINE if is_move else LOG,
        "action": action or REFUSED,
        "status": REFUSED,
        "command": refusal.command,
        "operator": refusal.actor,
        "reason": refusal.message,
        "request_id": refusal.request_id,
        "job_id": named[0] if named is not None else refusal.subject or None,
        "task_id": refusal.subject if named is not None else None,
        "from": refusal.source or None,
        "to": refusal.target or None,
        "metadata": {
            "code": refusal.code,
            "after": refusal.position,
            **({"dropped": refusal.dropped} if refusal.dropped else {}),
        },
    }


class Page(Struct, frozen=True):
    """Lines, the newest last; `next` leads to those before them, None where there are none."""

    entries: list[View]
    next: int | None


Records = Callable[[int, int], Iterator[Told]]


def page_of(
    records: Records,
    oldest: int,
    before: int,
    refusals: Sequence[Refusal],
    wanted: WantedEntries,
    *,
    limit: int,
    most: int = ENDLESS,
) -> Page:
    """The newest lines before the position `before`, at most about `limit` of them: those of one
    record stay together. Not more than about `most` records are read for them."""
    refused = [each for each in refusals if wanted.takes_time(each.at)]
    if wanted.refused:
        found = [entry for entry in map(refused_entry, refused) if wanted.takes(entry)]
        return Page(found[-limit:] if limit else found, None)
    oldest = max(oldest, wanted.first)
    end = min(before, wanted.last + 1) if wanted.last else before
    groups: deque[tuple[int, list[View]]] = deque()
    count, start, is_over = 0, end, False
    while start > oldest and end - start < most and not is_over and not 0 < limit <= count:
        stop, start = start - 1, max(oldest, start - CHUNK)
        for told in reversed(list(records(start, stop))):
            wall = told.wall(told.record.at)
            is_over = wall < wanted.since
            if is_over or 0 < limit <= count:
                start = told.position + 1
                break
            if wanted.takes_time(wall):
                lines = [entry for entry in entries_of(told) if wanted.takes(entry)]
                groups.appendleft((told.position, lines))
                count += len(lines)
    notes = [(r.position, refused_entry(r)) for r in refused if start <= r.position < end]
    shown = _merged(groups, notes, wanted)
    return Page(shown, start if start > oldest and not is_over else None)


def _merged(
    groups: Iterable[tuple[int, list[View]]],
    refused: list[tuple[int, View]],
    wanted: WantedEntries,
) -> list[View]:
    """Records and refusals in the order they came: a refusal follows the record before it."""
    lines = [(position, 0, entry) for position, entries in groups for entry in entries]
    lines += [(position, 1, entry) for position, entry in refused if wanted.takes(entry)]
    lines.sort(key=itemgetter(0, 1))
    return [entry for _, _, entry in lines]

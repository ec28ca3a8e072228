"""What was asked, by whom, and all that followed, as the log has it."""

import asyncio
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.api.call import Answer, Call
from holdfast.api.paging import page
from holdfast.api.problems import Declined
from holdfast.coordinator.inspect import HistoryGone, Told
from holdfast.coordinator.views import rfc3339
from holdfast.core.errors import BrokenInvariant
from holdfast.core.transactions import Action, to_json, transaction_of

USUAL: Final = 100
MOST: Final = 1_000


class Cursor(Struct, frozen=True):
    """Where the next part of the list begins, which goes from the newest back: records before
    `position`, and what needed no record before the instant `at`."""

    position: int
    at: int

    def __str__(self) -> str:
        return f"{self.position}.{self.at}"


NEWEST: Final = Cursor(2**62, 2**62)


async def list_transactions(call: Call) -> Answer:
    """The newest transactions, the newest last; `next` leads to those before them."""
    limit = max(1, call.number("limit", USUAL, most=MOST))
    before = _cursor(call.one("cursor"))
    served = call.service.served
    last, notices = await call.ask(lambda k: (int(k.state.position), list(k.notices)))
    last = min(last, before.position - 1)
    first = max(served.log.oldest, last - limit + 1)
    try:
        found = await asyncio.to_thread(lambda: list(served.history(first, last)))
    except (HistoryGone, FileNotFoundError) as error:
        raise Declined("gone", "that part of the history is no longer kept") from error
    is_first = first <= served.log.oldest or not found
    since = 0 if is_first else found[0].record.at
    entries = [_Entry(told.record.at, told, None) for told in found]
    entries += [_Entry(at, None, what) for at, what in notices if since <= at < before.at]
    entries.sort(key=lambda entry: entry.at)
    shown = _newest(entries, limit)
    views = [_view(call, entry) for entry in shown]
    is_all = is_first and len(shown) == len(entries)
    return Answer(page("transactions", views, None if is_all else _after(shown, before)))


class _Entry(Struct, frozen=True):
    """A record, or what needed none, at its instant of log time."""

    at: int
    told: Told | None
    notice: Action | None


def _newest(entries: list[_Entry], limit: int) -> list[_Entry]:
    """The last so many; a few more where the next would be of the same instant and without a
    position, since a cursor could not tell them apart."""
    start = max(0, len(entries) - limit)
    while start > 0 and entries[start].notice and entries[start - 1].at == entries[start].at:
        start -= 1
    return entries[start:]


def _after(shown: list[_Entry], before: Cursor) -> Cursor:
    position = next((int(e.told.position) for e in shown if e.told is not None), before.position)
    at = next((e.at for e in shown if e.notice is not None), before.at)
    return Cursor(position, at)


def _cursor(text: str) -> Cursor:
    if not text:
        return NEWEST
    position, _, at = text.partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) <= 19 for part in (position, at)):
        raise Declined("invalid", f"cursor={text[:40]!r} was not given out by this list")
    return Cursor(int(position), int(at))


def _view(call: Call, entry: _Entry) -> dict[str, Any]:
    if entry.told is not None:
        return view(entry.told)
    if entry.notice is None:
        raise BrokenInvariant("an entry is neither a record nor a notice")
    return notice_view(entry.notice, rfc3339(call.service.wall(entry.at)))


def notice_view(action: Action, time: str) -> dict[str, Any]:
    """Something that happened and needed no record: it has no position, and a restart forgets
    it."""
    return {
        "position": None,
        "time": time,
        "command": "",
        "actor": action.entity,
        "request_id": "",
        "reason": "",
        "events": [],
        "actions": [msgspec.structs.asdict(action)],
    }


def view(told: Told) -> dict[str, Any]:
    """One transaction as JSON has it; its time is that of the wall clock."""
    transaction = transaction_of(told.record, told.position)
    return {**to_json(transaction), "time": rfc3339(told.wall(transaction.time))}

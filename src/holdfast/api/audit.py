"""The audit trail of a server: who did what and why, the head of the log, and the trail as a file.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from itertools import islice
from typing import Final

from holdfast.api.call import Answer, Call, Stream
from holdfast.api.problems import Declined, understood
from holdfast.coordinator.audit import Page, page_of
from holdfast.coordinator.auditfile import exported, span_of
from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.refusals import refusals_in
from holdfast.core.ids import parse_task_name
from holdfast.wire.specs import instant_of
from holdfast.wire.wanted_entries import WantedEntries

USUAL: Final = 100
MOST: Final = 1_000
MOST_READ: Final = 20_000
"""So many records are read for one answer; `next` says where to go on."""
LINES_AT_ONCE: Final = 500
CONTENT_TYPE: Final = "application/jsonl"


async def list_entries(call: Call) -> Answer:
    """The newest lines of the audit trail, the newest last; `next` leads to those before them."""
    limit = max(1, call.number("limit", USUAL, most=MOST))
    wanted = _wanted(call)
    served = call.service.served
    last = await call.look(lambda state: int(state.position))
    cursor = call.number("cursor", 0, most=2**62)
    # What was refused after the last record is told with it.
    before = cursor or last + 1

    def look() -> Page:
        refusals = list(refusals_in(served.log.path))
        return page_of(
            served.history, served.log.oldest, before, refusals, wanted, limit=limit, most=MOST_READ
        )

    try:
        found = await asyncio.to_thread(look)
    except (HistoryGone, FileNotFoundError) as error:
        raise Declined("gone", "that part of the history is no longer kept") from error
    following = None if found.next is None else str(found.next)
    return Answer({"schema": 1, "entries": found.entries, "next": following})


async def head(call: Call) -> Answer:
    """How far the log is durable, and the head of its chain there: keep it elsewhere."""
    served = call.service.served
    position = await call.ask(lambda coordinator: int(coordinator.durable))
    found = await asyncio.to_thread(served.log.chain_after, position)
    told = "" if found is None else found.hex()
    return Answer({"schema": 1, "log_id": served.log.log_id, "position": position, "head": told})


async def export(call: Call) -> Stream:
    """The audit trail as a file of JSON lines, each chained to the one before it."""
    served = call.service.served
    durable = await call.ask(lambda coordinator: int(coordinator.durable))
    oldest = served.log.oldest
    first = call.number("first", oldest, most=2**62) or oldest
    last = min(call.number("last", durable, most=2**62) or durable, durable)
    if first < oldest:
        told = f"history before position {oldest} is no longer kept; ask with first={oldest}"
        raise Declined("gone", told)

    def begun() -> tuple[Iterator[bytes], bytes]:
        lines = exported(span_of(served.log, first, last), served.history(first, last))
        return lines, _some(lines)

    try:
        lines, beginning = await asyncio.to_thread(begun)
    except (HistoryGone, FileNotFoundError) as error:
        raise Declined("gone", "that part of the history is no longer kept") from error
    return Stream(CONTENT_TYPE, _pieces(lines, beginning))


async def _pieces(lines: Iterator[bytes], piece: bytes) -> AsyncGenerator[bytes, None]:
    """What goes away while it is read breaks the answer off: half a trail is none."""
    while piece:
        yield piece
        piece = await asyncio.to_thread(_some, lines)


def _some(lines: Iterator[bytes]) -> bytes:
    return b"".join(islice(lines, LINES_AT_ONCE))


def _wanted(call: Call) -> WantedEntries:
    job, index = call.one("job"), -1
    task = call.one("task")
    if task:
        named = parse_task_name(task)
        if named is None:
            raise Declined("invalid", f"task={task[:40]!r} is not of the form JOB/INDEX")
        job, index = named
    since, first = _moment(call, "since")
    until, last = _moment(call, "until")
    return WantedEntries(
        operator=call.one("operator"),
        command=call.one("command"),
        job_id=job,
        index=index,
        since=since,
        until=until,
        first=first,
        last=last,
        refused=call.flag("refused"),
    )


def _moment(call: Call, name: str) -> tuple[int, int]:
    """An instant, or a position: the one that is not meant is zero."""
    text = call.one(name)
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return 0, int(text)
    with understood():
        return instant_of(text, name), 0

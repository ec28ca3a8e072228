"""The log as it grows, told as server-sent events whose id is the position."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.api.call import Call, Stream
from holdfast.api.problems import Declined
from holdfast.api.transactions import view
from holdfast.api.waiting import until_any
from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.serving import Served

CONTENT_TYPE: Final = "text/event-stream"
ALIVE: Final = b": alive\n\n"
ALIVE_S: Final = 15.0
CHUNK: Final = 256


async def follow(call: Call) -> Stream:
    """Every transaction after `Last-Event-ID` or `since`, and then each as it becomes durable."""
    # Each reads the log by itself and holds a connection for as long as it likes.
    most = call.service.limits.followers
    if call.service.followers >= most:
        told = f"{most} follow the log already; try again when one has left"
        raise Declined("queue_full", told, headers={"retry-after": "5"})
    served = call.service.served
    last = await call.look(lambda state: int(state.position))
    told = call.headers.get("last-event-id", "") or call.one("since")
    if told and not (told.isascii() and told.isdigit() and len(told) <= 18):
        raise Declined("invalid", f"{told[:40]!r} is no position of the log")
    first = int(told) + 1 if told else last + 1
    if first > last + 1:
        raise Declined("invalid", f"the log ends at position {last}")
    oldest = served.log.oldest
    if 1 < first < oldest:
        told = f"history before position {oldest} is no longer kept; ask with since={oldest - 1}"
        raise Declined("gone", told)
    # From the very beginning means from where it is still kept.
    return Stream(CONTENT_TYPE, _events(call, max(first, oldest)))


async def _events(call: Call, position: int) -> AsyncGenerator[bytes, None]:
    served = call.service.served
    over = asyncio.ensure_future(until_over(call))
    # Counted where it is certain to be uncounted.
    call.service.followers += 1
    try:
        # The first bytes go out at once: whoever waits for headers shall have them.
        yield b"retry: 1000\n\n"
        while not over.done():
            durable = served.coordinator.durable
            if position <= durable:
                last = min(durable, position + CHUNK - 1)
                try:
                    yield await asyncio.to_thread(_told, served, position, last)
                except (HistoryGone, FileNotFoundError):
                    # The reader was too slow for what is kept: it asks again and is told so.
                    return
                position = last + 1
                continue
            grown = served.growth.after(durable)
            await until_any(grown, asyncio.shield(over), timeout_s=ALIVE_S)
            if served.coordinator.durable < position:
                yield ALIVE
    finally:
        call.service.followers -= 1
        over.cancel()
        with suppress(asyncio.CancelledError):
            await over


async def until_over(call: Call) -> None:
    """Until nobody listens, or nobody is there to tell."""
    await until_any(call.gone(), call.service.leaving.wait())


def _told(served: Served, first: int, last: int) -> bytes:
    lines: list[bytes] = []
    for told in served.history(first, last):
        data = msgspec.json.encode(view(told))
        lines.append(b"id: %d\nevent: %s\ndata: %s\n\n" % (
            told.position, told.record.command.encode(), data,
        ))  # fmt: skip
    return b"".join(lines)

"""Waiting until class runtimes change, and telling their changes as server-sent events.

What is told is how each stands, not what happened to it: a listener that comes back with the
`Last-Event-ID` it saw last is told what changed since, and after `synced` knows all there are.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from holdfast.api.call import Call, Stream
from holdfast.api.events import ALIVE, ALIVE_S, CONTENT_TYPE, until_over
from holdfast.api.problems import Declined
from holdfast.api.waiting import until_any
from holdfast.coordinator import runtimes as desk
from holdfast.core.resource import Resource
from holdfast.core.state import State
from holdfast.runtimes.resource import KIND

T = TypeVar("T")

GATHER_S: Final = 0.02
"""Changes that come so close together are looked at once: a busy log is not a busy runtime."""

Versions = dict[str, int]


async def until_changed(call: Call, look: Callable[[State], T], before: T, wait_s: float) -> T:
    """What `look` finds when it is no longer `before`, or when so much time has passed, or when
    nobody waits for it any more."""
    served, loop = call.service.served, asyncio.get_running_loop()
    give_up_at = loop.time() + wait_s
    over = asyncio.ensure_future(until_over(call))
    try:
        while True:
            durable = served.coordinator.durable
            found = await call.look(look)
            left_s = give_up_at - loop.time()
            if found != before or left_s <= 0 or over.done():
                return found
            await until_any(served.growth.after(durable), asyncio.shield(over), timeout_s=left_s)
            await asyncio.sleep(GATHER_S)
    finally:
        over.cancel()
        with suppress(asyncio.CancelledError):
            await over


async def watch(call: Call) -> Stream:
    """Class runtimes as they stand, then each as it changes; `name` for one of them."""
    service = call.service
    if service.followers >= service.limits.followers:
        told = f"{service.limits.followers} follow already; try again when one has left"
        raise Declined("queue_full", told, headers={"retry-after": "5"})
    told = call.headers.get("last-event-id", "") or call.one("since")
    if told and not (told.isascii() and told.isdigit() and len(told) <= 18):
        raise Declined("invalid", f"{told[:40]!r} is no position of the log")
    return Stream(CONTENT_TYPE, _told(call, call.one("name"), int(told or 0)))


async def _told(call: Call, name: str, since: int) -> AsyncGenerator[bytes, None]:
    service = call.service
    over = asyncio.ensure_future(until_over(call))
    # Counted where it is certain to be uncounted.
    service.followers += 1
    try:
        # The first bytes go out at once: whoever waits for headers shall have them.
        yield b"retry: 1000\n\n"
        known = await call.look(partial(_versions, name))
        changed = [each for each, version in known.items() if version > since]
        yield await _changes(call, changed) + _event("synced", None, {"names": sorted(known)})
        while not over.done():
            found = await until_changed(call, partial(_versions, name), known, ALIVE_S)
            changed = [each for each, version in found.items() if known.get(each) != version]
            gone = [each for each in known if each not in found]
            removed = [_event("removed", None, {"name": each}) for each in gone]
            known = found
            yield b"".join((await _changes(call, changed), *removed)) or ALIVE
    finally:
        service.followers -= 1
        over.cancel()
        with suppress(asyncio.CancelledError):
            await over


def _versions(name: str, state: State) -> Versions:
    if name:
        version = desk.version_of(state, name)
        return {name: version} if version else {}
    return {
        each: int(kept.version)
        for (kind, each), kept in state.resources.items()
        if kind == KIND
    }


async def _changes(call: Call, changed: list[str]) -> bytes:
    def look(state: State) -> list[Resource]:
        return [desk.copied(state, each) for each in changed if desk.version_of(state, each)]

    kept = await call.look(look)
    wall = call.service.wall
    kept.sort(key=lambda each: each.version)
    return b"".join(
        _event("runtime", int(each.version), desk.runtime_view(each, wall)) for each in kept
    )


def _event(kind: str, position: int | None, value: Any) -> bytes:
    told = b"" if position is None else b"id: %d\n" % position
    return told + b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(value))

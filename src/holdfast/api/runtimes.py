"""Class runtimes: services that are declared, kept up, looked at and taken down.

The body of a change is the manifest. Whatever is wrong with it is told with the path of its field,
and nothing is changed.
"""

import asyncio
from typing import Any, Final

import msgspec

from holdfast.api.call import Answer, Call
from holdfast.api.negotiation import JSON, MSGPACK
from holdfast.api.paging import labels_of
from holdfast.api.problems import Declined, understood
from holdfast.api.runtime_changes import until_changed
from holdfast.api.tags import names
from holdfast.coordinator import runtimes as desk
from holdfast.coordinator.coordinator import Coordinator
from holdfast.core.decision import Decision, Refused
from holdfast.core.resource import Resource
from holdfast.core.state import State
from holdfast.core.unreadable import UNREADABLE
from holdfast.runtimes.descriptor import Problem
from holdfast.runtimes.manifest import ClassRuntime, decode
from holdfast.wire.amounts import duration_ms

PAGE: Final = 100
PAGE_MOST: Final = 1_000
LONGEST_WAIT_MS: Final = 300_000
HERE: Final = "/api/v1/runtimes"


async def list_runtimes(call: Call) -> Answer:
    """A page of class runtimes, by name; with `label` those that have it."""
    limit = max(1, call.number("limit", PAGE, most=PAGE_MOST))
    after = call.one("cursor")
    labels = labels_of(call)
    found = await call.look(lambda state: desk.copies(state, after, limit + 1, labels=labels))
    shown, more = found[:limit], len(found) > limit
    wall = call.service.wall
    views = await asyncio.to_thread(lambda: [desk.runtime_view(kept, wall) for kept in shown])
    return Answer({"schema": 1, "runtimes": views, "next": shown[-1].name if more else None})


async def show(call: Call) -> Answer:
    """A runtime. With `wait` and `version`: when it is no longer at that version, or time is up."""
    name = call.path["name"]
    wait = call.one("wait")
    if wait:
        with understood():
            wait_ms = min(duration_ms(wait, "wait"), LONGEST_WAIT_MS)
        before = call.number("version", 0, most=1 << 62)
        await until_changed(
            call, lambda state: desk.version_of(state, name), before, wait_ms / 1_000
        )
    return await _shown(call, name)


async def apply(call: Call) -> Answer:
    """Declare a runtime, or declare it anew; with `dry_run` only say what that would change."""
    runtime = manifest_of(call)
    if call.flag("dry_run"):
        return await _foreseen(call, runtime)
    return await _declared(call, runtime)


async def replace(call: Call) -> Answer:
    """Declare the runtime of this name; If-Match names the version that is meant."""
    runtime = manifest_of(call)
    name = call.path["name"]
    if runtime.name != name:
        told = f"metadata.name: it is {runtime.name!r}, and the path names {name!r}"
        raise Declined("invalid", told, extra={"path": "metadata.name"})
    return await _declared(call, runtime)


async def remove(call: Call) -> Answer:
    """Take a runtime down; it is gone when nothing of it is left. If-Match names its version."""
    name = call.path["name"]

    def ask(coordinator: Coordinator) -> Decision:
        _check_former(call, coordinator.state, name)
        return call.decide(coordinator, desk.deleting(name))

    done = await call.found(await call.ask(ask))
    change = desk.DELETED if desk.change_of(done.events) == desk.DELETED else desk.DELETING
    return Answer({"schema": 1, "name": name, "change": change})


async def events(call: Call) -> Answer:
    """What happened to a runtime and was told about it, the latest last."""
    name = call.path["name"]
    await call.service.served.remembered.recall()

    def look(state: State) -> list[dict[str, Any]]:
        _check_known(state, name)
        found = call.service.served.reconciling.happenings.of(name)
        return [desk.happening_view(each, call.service.wall) for each in found]

    return Answer({"schema": 1, "name": name, "events": await call.look(look)})


def manifest_of(call: Call) -> ClassRuntime:
    """The runtime that the body declares; `Declined` names the field that is wrong."""
    media = call.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if media == MSGPACK:
            content = msgspec.msgpack.decode(call.content)
        elif media in ("", JSON):
            content = msgspec.json.decode(call.content)
        else:
            told = f"{media[:60]!r} is not understood; send `Content-Type: {JSON}`, or {MSGPACK}"
            raise Declined("unsupported_media_type", told)
    except UNREADABLE as error:
        raise Declined("malformed", f"the body cannot be read: {error}") from error
    found = decode(content)
    if isinstance(found, Problem):
        extra = {"path": found.path, "message": found.message}
        raise Declined("invalid", str(found), extra=extra)
    return found


async def _foreseen(call: Call, runtime: ClassRuntime) -> Answer:
    def ask(coordinator: Coordinator) -> desk.Foreseen | Refused:
        _check_former(call, coordinator.state, runtime.name)
        return desk.foreseen(coordinator.state, runtime, coordinator.now())

    found = await call.ask(ask)
    if isinstance(found, Refused):
        raise Declined(found.code.value, found.message)
    return Answer(
        {
            "schema": 1,
            "name": runtime.name,
            "change": found.change,
            "dry_run": True,
            "before": found.before,
            "after": found.after,
        }
    )


async def _declared(call: Call, runtime: ClassRuntime) -> Answer:
    def ask(coordinator: Coordinator) -> Decision:
        if not call.was_answered(coordinator):
            _check_former(call, coordinator.state, runtime.name)
        command = msgspec.structs.replace(desk.declaring(runtime), **call.keying())
        return call.decide(coordinator, command)

    done = await call.found(await call.ask(ask))
    change = desk.change_of(done.events)
    view, tag = await _viewed(call, runtime.name)
    status = 201 if change == desk.CREATED else 200
    headers = (("etag", tag), ("location", f"{HERE}/{runtime.name}"))
    told = {"schema": 1, "name": runtime.name, "change": change, "dry_run": False, "runtime": view}
    return Answer(told, status, headers)


async def _shown(call: Call, name: str) -> Answer:
    view, tag = await _viewed(call, name)
    return Answer({"schema": 1, **view}, headers=(("etag", tag),))


async def _viewed(call: Call, name: str) -> tuple[dict[str, Any], str]:
    def look(state: State) -> Resource:
        _check_known(state, name)
        return desk.copied(state, name)

    kept = await call.look(look)
    return desk.runtime_view(kept, call.service.wall), tag_of(int(kept.version))


def tag_of(version: int) -> str:
    """Another one wherever anything of the runtime changed; none where there is no runtime."""
    return f'"{version}"' if version else ""


def _check_known(state: State, name: str) -> None:
    if not desk.version_of(state, name):
        refused = desk.no_runtime(name)
        raise Declined(refused.code.value, refused.message)


def _check_former(call: Call, state: State, name: str) -> None:
    """Whoever says what they believe to change is refused where it is something else."""
    wanted, unwanted = call.headers.get("if-match", ""), call.headers.get("if-none-match", "")
    tag = tag_of(desk.version_of(state, name))
    if wanted and not names(wanted, tag):
        now = f"it is {tag} now" if tag else "there is none"
        raise Declined("precondition_failed", f"the runtime is not the one named: {now}")
    if unwanted and names(unwanted, tag):
        raise Declined("precondition_failed", f"there is such a runtime already: {tag}")

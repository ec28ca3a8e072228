"""Watching jobs over a stream."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from holdfast.api.call import Answer, Call, Stream
from holdfast.api.problems import Declined
from holdfast.api.streams import Listener
from holdfast.core.ids import JobId
from holdfast.wire.bodies import Watch

CONTENT_TYPE: Final = "application/x-holdfast-watch"
MOST_JOBS: Final = 10_000


async def listen(call: Call) -> Stream:
    """A stream of what becomes of jobs; name them with a POST to the stream's own path."""
    if call.service.streams.is_full():
        raise Declined("queue_full", "too many streams are open", headers={"retry-after": "5"})
    listener = call.service.streams.open(call.identity)
    return Stream(CONTENT_TYPE, _frames(call, listener))


async def _frames(call: Call, listener: Listener) -> AsyncGenerator[bytes, None]:
    leaving = asyncio.ensure_future(_close_when_gone(call, listener))
    try:
        async for frames in listener.frames():
            yield frames
    finally:
        leaving.cancel()
        call.service.streams.drop(listener)


async def _close_when_gone(call: Call, listener: Listener) -> None:
    await call.gone()
    listener.close()


async def add(call: Call) -> Answer:
    """Have these jobs told on the stream too, each from how it stands now, and others no more."""
    body: Watch = call.body
    if len(body.jobs) + len(body.drop) > MOST_JOBS:
        raise Declined("too_large", f"at most {MOST_JOBS} jobs at a time")
    streams, name = call.service.streams, call.path["stream"]
    if streams.find(call.identity, name) is None:
        raise Declined("not_found", "there is no such stream; open another")

    def watch(_: object) -> None:
        for job_id in body.drop:
            streams.unwatch(call.identity, name, JobId(job_id))
        for job_id in body.jobs:
            streams.watch(call.identity, name, JobId(job_id))

    await call.ask(watch)
    return Answer({})

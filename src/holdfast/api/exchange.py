"""The exchange over HTTP: arrays between programs, named fields for a person with curl."""

import asyncio
from typing import Any, Final

from holdfast.api.call import Answer, Call
from holdfast.api.problems import Declined
from holdfast.wire.exchange import Exchange

PARK_S: Final = 20.0
LEAVING_PARK_S: Final = 0.5
NAME_MAX: Final = 200


async def exchange(call: Call) -> Answer:
    """What a worker says happened, and what it is told to do next. Parks when there is nothing."""
    message: Exchange = call.body
    if not 0 < len(message.worker) <= NAME_MAX or not message.worker.isprintable():
        raise Declined("invalid", "a worker has a name")
    if not call.identity.speaks_for(message.worker):
        raise Declined("forbidden", f"this token is for the worker {call.identity.worker!r}")
    # Who leaves takes reports still, and keeps nobody waiting for long.
    park_s = LEAVING_PARK_S if call.service.leaving.is_set() else PARK_S
    answer = asyncio.ensure_future(call.service.served.exchange(message, park_s))
    await until_either(answer, call)
    if not answer.done():
        # Nobody listens any more, which proves nothing about the worker: it asks again.
        answer.cancel()
        await asyncio.wait([answer])
        raise Declined("not_ready", "the asker has left")
    return Answer(answer.result())


async def until_either(answer: "asyncio.Future[Any]", call: Call) -> None:
    """Until there is an answer, or nobody to tell it to."""
    gone = asyncio.ensure_future(call.gone())
    try:
        await asyncio.wait([answer, gone], return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()

"""Requests that come again: the first answer, as long as it is remembered here.

What is forgotten here, or was answered before a restart, is known to the log for as long.
"""

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Final, cast

from msgspec import Struct

from holdfast.api.call import Answered
from holdfast.api.problems import Declined

KEEP_S: Final = 900.0
MOST: Final = 10_000
LONGEST_KEY: Final = 200


class _First(Struct):
    """The first of its key: `making` while it is made, `answer` when it is. The task that made it
    is let go of, with all it held: there may be ten thousand of these."""

    digest: bytes
    since: float
    making: "asyncio.Task[Answered] | None"
    answer: Answered | Declined | None = None


class Repeats:
    """Keys belong to whoever asked: two tokens may use the same one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[str, _First] = {}

    async def answer(
        self, key: str, digest: bytes, make: Callable[[], Awaitable[Answered]]
    ) -> Answered:
        """The answer to this request, made once. Whoever repeats it meanwhile waits for it."""
        self._forget()
        first = self._known.get(key)
        if first is None:
            making = asyncio.ensure_future(_made(make))
            first = self._known[key] = _First(digest, self._clock(), making)
            making.add_done_callback(lambda _: self._settle(key, making))
        elif first.digest != digest:
            raise Declined("key_reused", "this Idempotency-Key came before with another request")
        if first.making is not None:
            # One asker who gives up must not take the answer from the others.
            return await asyncio.shield(first.making)
        if isinstance(first.answer, Declined):
            raise first.answer.with_traceback(None)
        return cast(Answered, first.answer)

    def _settle(self, key: str, made: "asyncio.Task[Answered]") -> None:
        """A trouble that may pass is not an answer: the next one is judged anew."""
        first = self._known.get(key)
        if first is None or first.making is not made:
            return
        error = asyncio.CancelledError() if made.cancelled() else made.exception()
        lasts = isinstance(error, Declined) and error.status < 500 and error.status != 429
        if error is not None and not lasts:
            del self._known[key]
            return
        first.making = None
        first.answer = error.with_traceback(None) if isinstance(error, Declined) else made.result()

    def _forget(self) -> None:
        limit = self._clock() - KEEP_S
        while self._known:
            key, first = next(iter(self._known.items()))
            if first.since > limit and len(self._known) < MOST:
                return
            del self._known[key]


async def _made(make: Callable[[], Awaitable[Answered]]) -> Answered:
    return await make()


def checked(key: str) -> str:
    if len(key) > LONGEST_KEY or not key.isprintable():
        raise Declined("invalid", f"an Idempotency-Key has at most {LONGEST_KEY} characters")
    return key


def digest_of(method: str, target: str, body: bytes) -> bytes:
    """What makes two requests the same."""
    return blake2b(f"{method} {target}\n".encode() + body, digest_size=16).digest()

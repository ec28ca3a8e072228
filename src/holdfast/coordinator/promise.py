"""An answer that comes later, told to one listener in the very moment it is known.

A future tells its listener in the next pass of the event loop, and a task is needed to wait for it.
A thousand idle workers ask two hundred times a second, and for each of them that is most of the
work. Whoever has the time may await a promise all the same.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")

Listener = Callable[[T | Exception], None]

_NOTHING = object()


class Promise(Generic[T]):
    """Kept once, with an answer or with the trouble that stands for it; what comes after that is
    not heard. Used on one thread."""

    __slots__ = ("_kept", "_listener")

    def __init__(self) -> None:
        self._kept: object = _NOTHING
        self._listener: Listener[T] | None = None

    def keep(self, answer: T | Exception) -> None:
        if self._kept is _NOTHING:
            self._kept = answer
            if self._listener is not None:
                self._listener(answer)

    def then(self, listener: Listener[T]) -> None:
        """Have this told, at once where it is known already."""
        self._listener = listener
        if self._kept is not _NOTHING:
            listener(cast(T, self._kept))

    def __await__(self) -> Generator[Any, None, T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def settle(answer: T | Exception) -> None:
            if future.done():
                return
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.then(settle)
        return (yield from future)

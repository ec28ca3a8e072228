"""Where an event loop hands over output and asks for it. The disk has a thread of its own here.

Readers may wait for more; whoever brings it wakes them. Nothing of this delays the log.
"""

import asyncio
import math
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

from holdfast.coordinator.lines import say
from holdfast.coordinator.output import Listed, OutputStore, Quota
from holdfast.coordinator.outputparts import StreamName
from holdfast.core.errors import OperatingError
from holdfast.wire.output import Output

T = TypeVar("T")

REMEMBERED: Final = 10_000
WAITING_MAX: Final = 1_024
"""How much may wait for the disk before it is said to be too much."""


class OutputBusy(OperatingError):
    """The disk cannot keep up, or cannot be written: the sender tries again later."""


class OutputDesk:
    """Used on one event loop; close it there."""

    def __init__(self, store: OutputStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-output")
        self._waiting = 0
        # When something came last, and who said that nothing ever will: both only of late.
        self._heard: dict[StreamName, float] = {}
        self._silent: dict[StreamName, float] = {}
        self._readers: dict[StreamName, set[asyncio.Event]] = {}

    async def append(
        self,
        name: StreamName,
        offset: int,
        content: bytes,
        *,
        skips: bool = False,
        ended: bool = False,
    ) -> int:
        """Where the stream goes on, once this is part of it. See `OutputStore.append`."""
        if self._waiting >= WAITING_MAX:
            raise OutputBusy("too much output waits for the disk")
        if ended and not content and not offset:
            # Whoever ends a stream without a byte needs no disk.
            _remember(self._silent, name, 0.0)
            self._wake(name)
            return 0
        store = self._store
        try:
            after = await self._do(
                lambda: store.append(name, offset, content, skips=skips, ended=ended)
            )
            _remember(self._heard, name, time.monotonic())
            return after
        except OSError as error:
            raise OutputBusy(f"output cannot be kept: {error}") from error
        finally:
            self._wake(name)

    async def limit(self, quota: Quota) -> None:
        """Keep so much from now on, and drop at once what is too much in all."""
        try:
            await self._do(lambda: self._store.limit(quota))
        except OSError as error:
            say("output_not_dropped", why=str(error))

    async def read(self, name: StreamName, offset: int, limit: int) -> Output:
        return await self._do(lambda: self._store.read(name, offset, limit))

    async def listed(self, job_id: str, first: int, limit: int) -> list[Listed]:
        return await self._do(lambda: self._store.listed(job_id, first, limit))

    @contextmanager
    def listening(self, name: StreamName) -> Iterator[asyncio.Event]:
        """An event that is set whenever the stream may have changed. Whoever clears it before
        they read misses nothing."""
        event = asyncio.Event()
        readers = self._readers.setdefault(name, set())
        readers.add(event)
        try:
            yield event
        finally:
            readers.discard(event)
            if not readers and self._readers.get(name) is readers:
                del self._readers[name]

    def quiet_s(self, name: StreamName) -> float:
        """How long nothing has come for this stream; long ago is for ever."""
        heard = self._heard.get(name)
        return math.inf if heard is None else time.monotonic() - heard

    def said_nothing(self, name: StreamName) -> bool:
        """Whether the stream has ended without a byte, as its worker has told of late."""
        return name in self._silent

    async def sweep(
        self, is_over: Callable[[StreamName], bool], known: Callable[[str], bool]
    ) -> None:
        """Remove the output of jobs that are not known any more, and end the streams of attempts
        that are over: some worker did not live to say so."""
        jobs = await self._do(self._store.jobs)
        gone = [job for job in jobs if not known(job)]
        if gone:
            await self._do(lambda: self._store.forget(gone))
        over = [name for name in await self._do(self._store.open_streams) if is_over(name)]
        await self._do(lambda: self._end(over))
        for name in over:
            self._wake(name)

    async def close(self) -> None:
        for name in list(self._readers):
            self._wake(name)
        await asyncio.to_thread(self._thread.shutdown)

    def _end(self, names: Collection[StreamName]) -> None:
        for name in names:
            try:
                self._store.end(name)
            except OSError as error:
                say("output_not_ended", why=str(error))

    async def _do(self, work: Callable[[], T]) -> T:
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= 1

    def _wake(self, name: StreamName) -> None:
        for event in self._readers.get(name, ()):
            event.set()


def _remember(memory: dict[StreamName, float], name: StreamName, what: float) -> None:
    memory.pop(name, None)
    memory[name] = what
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]

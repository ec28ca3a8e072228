"""Output on its way to the server: beside the exchanges, never before them.

What was printed is gathered and read in a thread, sent in batches, and sent again when no answer
came. Nobody waits for it but a worker that leaves, and that not for long.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from logging import getLogger
from typing import Final

from holdfast.core.ids import WorkerId
from holdfast.wire.http import FIRST_PAUSE_S, LONGEST_PAUSE_S, Rejected, Unreachable
from holdfast.wire.output import Chunk, Chunks, Receipt
from holdfast.worker.outbox import BATCH_BYTES, BATCH_CHUNKS, Outbox

log = getLogger("holdfast")

LIVE_S: Final = 0.1
"""How often the output of what runs is looked at."""
IDLE_S: Final = 0.5
CALM_S: Final = 0.025
"""The pause after a batch that was not full: more of it will be in the next."""
FULL_S: Final = 0.05
"""The pause after a batch as large as one may be: output must not fill the network."""
ANSWER_S: Final = 30.0

Bring = Callable[[Chunks, float], Awaitable[Receipt]]
"""Take chunks to the server and bring its answer, within so many seconds, or raise `Unreachable`
or `Rejected`."""


class Shipper:
    """Empties one outbox on one event loop."""

    def __init__(self, outbox: Outbox, bring: Bring, worker: WorkerId, incarnation: int) -> None:
        self._outbox = outbox
        self._bring = bring
        self._worker = worker
        self._incarnation = incarnation
        self._loop = asyncio.get_running_loop()
        self._bell = asyncio.Event()
        self._is_leaving = False
        self._pause_s = FIRST_PAUSE_S

    def wake(self) -> None:
        """Something was printed. May be called from any thread, at any time."""
        if not self._bell.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._bell.set)

    async def ship(self, is_busy: Callable[[], bool]) -> None:
        """Until asked to leave and nothing is left. `is_busy` says whether anything runs that
        might print."""
        while True:
            # A look that began before that may have missed what was printed meanwhile.
            is_last_look = self._is_leaving
            chunks = await asyncio.to_thread(self._outbox.gather)
            if chunks:
                await asyncio.sleep(await self._send(chunks))
            elif is_last_look:
                return
            else:
                is_live = is_busy() or not self._outbox.is_empty()
                await self._rest(LIVE_S if is_live else IDLE_S)

    async def drain(self, shipping: "asyncio.Task[None]", seconds: float) -> None:
        """Send what is left, for so long at most."""
        self._is_leaving = True
        self._bell.set()
        await asyncio.wait([shipping], timeout=seconds)
        shipping.cancel()
        await asyncio.gather(shipping, return_exceptions=True)

    async def _rest(self, patience_s: float) -> None:
        try:
            await asyncio.wait_for(self._bell.wait(), patience_s)
        except TimeoutError:
            return
        finally:
            self._bell.clear()

    async def _send(self, chunks: list[Chunk]) -> float:
        """Send a batch once; how long to pause before the next."""
        message = Chunks(self._worker, self._incarnation, tuple(chunks))
        try:
            receipt = await self._bring(message, ANSWER_S)
        except Unreachable:
            return self._back_off()
        except Rejected as error:
            log.warning("the server does not take what tasks print: %s", error)
            self._outbox.give_up(chunks)
            return FULL_S
        for chunk, kept in zip(chunks, receipt.chunks, strict=False):
            self._outbox.settle(chunk, kept)
        await asyncio.to_thread(self._outbox.forget_sent)
        if any(kept.code == "not_ready" for kept in receipt.chunks):
            return self._back_off()
        self._pause_s = FIRST_PAUSE_S
        size = sum(len(chunk.content) for chunk in chunks)
        if size >= BATCH_BYTES:
            return FULL_S
        return 0.0 if len(chunks) >= BATCH_CHUNKS or self._is_leaving else CALM_S

    def _back_off(self) -> float:
        # Full jitter: a thousand workers must not come back in step.
        pause, self._pause_s = self._pause_s, min(self._pause_s * 2, LONGEST_PAUSE_S)
        return random.uniform(0, pause)  # noqa: S311

"""What the tasks of one worker print, from their files to the server."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from holdfast.core.ids import WorkerId
from holdfast.wire.http_async import AsyncHttp, Server
from holdfast.wire.output import Chunks, Receipt
from holdfast.worker.captures import LaneFiles
from holdfast.worker.outbox import Outbox
from holdfast.worker.prints import LanePrints
from holdfast.worker.shipping import Shipper

LOGS: Final = "/api/v1/logs"
LAST_OUTPUT_S: Final = 5.0
"""How long a worker that leaves goes on sending what its tasks have printed."""


class Printed:
    """Executors are given `outbox` and `of_lanes`. It has connections of its own, so that no
    exchange waits behind output. Used on one event loop; close it there."""

    def __init__(
        self, server: Server, worker: WorkerId, incarnation: int, folder: Path, lanes: int
    ) -> None:
        self._http = AsyncHttp(server)
        self._files = LaneFiles(folder, lanes)
        self.outbox = Outbox(self._wake)
        self.of_lanes = [LanePrints(files, self.outbox) for files in self._files.lanes]
        self._shipper = Shipper(self.outbox, self._bring, worker, incarnation)
        self._shipping: asyncio.Task[None] | None = None

    def start(self, is_busy: Callable[[], bool]) -> None:
        """`is_busy` says whether anything runs that might print."""
        self._shipping = asyncio.create_task(self._shipper.ship(is_busy))

    async def close(self) -> None:
        """Send what is left, as far as anybody takes it, and let go of the files."""
        if self._shipping is not None:
            await self._shipper.drain(self._shipping, LAST_OUTPUT_S)
        self.outbox.close()
        self._files.close()
        await self._http.close()

    def _wake(self) -> None:
        self._shipper.wake()

    async def _bring(self, chunks: Chunks, answer_s: float) -> Receipt:
        return await self._http.post(LOGS, chunks, Receipt, answer_s=answer_s)

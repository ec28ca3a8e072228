"""What a server uses of a processor while its workers have nothing to do.

All workers are connections of this one process, which speaks just enough HTTP to play them: a
client for people would cost more than the server that is measured. Each says something every five
seconds, evenly spread; what it says is parked until it says the next thing, over a second
connection, as a worker does that has something to tell.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

import msgspec

from holdfast.cli.benchmarks.cluster import Cluster, processor_s, serving
from holdfast.cli.benchmarks.row import Figure, Row, RowFailed, Values, at_most, main
from holdfast.core.ids import WorkerId
from holdfast.version import VERSION
from holdfast.wire.exchange import Capacity, Exchange, Hello

PERIOD_S: Final = 5.0
ROUNDS: Final = 3
FEW: Final = 1_000
"""Fewer workers than this are a first look, for which one round is enough."""
OFFERED: Final = Capacity(2, 2_000, 8 << 30, 0)
END_OF_HEAD: Final = b"\r\n\r\n"
LENGTH: Final = b"content-length: "


class Line(asyncio.Protocol):
    """One connection, with one request under way on it at most."""

    def __init__(self, counts: "Counts") -> None:
        self._counts = counts
        self._transport: asyncio.WriteTransport | None = None
        self._heard = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # What the faster loop gives is no instance of what it stands for.
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._heard += data
        head = self._heard.find(END_OF_HEAD)
        if head < 0:
            return
        start = self._heard.lower().find(LENGTH) + len(LENGTH)
        length = int(self._heard[start : self._heard.index(b"\r", start)])
        if len(self._heard) < head + len(END_OF_HEAD) + length:
            return
        # On a machine that is busy a later exchange may come first; the earlier one is told so.
        if self._heard.startswith((b"HTTP/1.1 200", b"HTTP/1.1 409")):
            self._counts.answered += 1
        else:
            self._counts.trouble = self._heard[:300].decode(errors="replace")
        self._heard.clear()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._counts.is_over:
            self._counts.trouble = f"a connection was lost: {error}"

    def say(self, request: bytes) -> None:
        if self._transport is not None:
            self._transport.write(request)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Counts(msgspec.Struct):
    """What came back, over all connections."""

    answered: int = 0
    trouble: str = ""
    is_over: bool = False


class Idler:
    """A worker that has nothing to do and says so, on two connections in turn."""

    def __init__(self, number: int, head: bytes, lines: tuple[Line, Line]) -> None:
        self._name = WorkerId(f"idle-{number}")
        self._hello = Hello(f"host-{number}", number + 1, VERSION)
        self._head = head
        self._lines = lines
        self._number = 0

    def say(self) -> None:
        self._number += 1
        body = msgspec.msgpack.encode(
            Exchange(
                self._name, 1, self._number, max(0, self._number - 2), OFFERED,
                (), (), (), (), (), 0, False, self._hello if self._number == 1 else None,
            )
        )  # fmt: skip
        self._lines[self._number % 2].say(self._head + b"%d\r\n\r\n" % len(body) + body)

    def close(self) -> None:
        for line in self._lines:
            line.close()


async def _idle(cluster: Cluster, size: int, counts: Counts) -> tuple[float, int]:
    """The processor time of the server and the answers it gave while it was watched."""
    where = urlsplit(cluster.url)
    head = (
        f"POST /api/v1/exchange HTTP/1.1\r\nhost: {where.netloc}\r\n"
        f"authorization: Bearer {cluster.token}\r\naccept: application/msgpack\r\n"
        f"content-type: application/msgpack\r\ncontent-length: "
    ).encode()
    loop = asyncio.get_running_loop()
    idlers: list[Idler] = []
    watched: list[tuple[float, int]] = []

    async def line() -> Line:
        _, made = await loop.create_connection(
            lambda: Line(counts), where.hostname or "", where.port or 0
        )
        return made

    def talk(idler: Idler, due: float) -> None:
        if not counts.is_over:
            idler.say()
            loop.call_at(due + PERIOD_S, talk, idler, due + PERIOD_S)

    def watch() -> None:
        watched.append((processor_s(cluster.server.pid), counts.answered))

    began = loop.time()
    try:
        for number in range(size):
            due = began + PERIOD_S * number / size
            await asyncio.sleep(max(0.0, due - loop.time()))
            idlers.append(Idler(number, head, (await line(), await line())))
            loop.call_at(due, talk, idlers[-1], due)
        rounds = ROUNDS if size >= FEW else 1
        # Until each has spoken twice, the server is still getting to know them.
        await asyncio.sleep(max(0.0, began + 2 * PERIOD_S - loop.time()))
        watch()
        await asyncio.sleep(rounds * PERIOD_S)
        watch()
    finally:
        counts.is_over = True
        for idler in idlers:
            idler.close()
    (spent, answered), (spent_then, answered_then) = watched
    return spent_then - spent, answered_then - answered


def run(size: int, folder: Path) -> Values:
    import uvloop

    counts = Counts()
    with serving(folder) as cluster:
        began = time.perf_counter()
        spent, answered = uvloop.run(_idle(cluster, size, counts))
        cluster.server.check()
    if counts.trouble:
        raise RowFailed(counts.trouble)
    rounds = ROUNDS if size >= FEW else 1
    if answered < rounds * size * 0.9:
        took = time.perf_counter() - began
        raise RowFailed(f"only {answered} of {rounds * size} exchanges were answered in {took} s")
    return {"share": 100 * spent / (rounds * PERIOD_S), "exchange_us": 1e6 * spent / answered}


ROW = Row(
    name="idle",
    what="1,000 idle workers, each exchanging every 5 s",
    figures=(
        Figure("share", "of one core, used by the server", "%", at_most(8)),
        Figure("exchange_us", "processor time of the server for an exchange", "µs"),
    ),
    size=FEW,
    quick_size=100,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))

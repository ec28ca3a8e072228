"""Somebody asks for far too much: everybody else is served, memory stays bounded, and what is
refused leaves nothing in the log.

How long the others waited is told, never judged: time is the machine's.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.testing.loopback import ServerProcess

MIB = 1024 * 1024
GROWTH_MAX = 300 * MIB
"""Far below what an unbounded buffer would take, and above what jobs and connections do."""
LOOKS = 200


class Crowd:
    """A server under load, and one asker who only wants to know whether it lives."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.host, port = server.url.removeprefix("http://").split(":")
        self.port = int(port)
        self.process = psutil.Process(server.pid)
        self.guest = ""
        self.rss = self.process.memory_info().rss

    def grown(self) -> int:
        return int(self.process.memory_info().rss) - self.rss

    def request(
        self, method: str, path: str, body: bytes = b"", *, length: int | None = None
    ) -> bytes:
        told = len(body) if length is None else length
        return (
            f"{method} /api/v1{path} HTTP/1.1\r\nhost: localhost\r\n"
            f"authorization: Bearer {self.server.token}\r\ncontent-type: application/json\r\n"
            f"content-length: {told}\r\n\r\n"
        ).encode() + body

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.host, self.port)

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        reader, writer = await self.open()
        try:
            writer.write(request)
            return await answer_of(reader)
        finally:
            writer.close()

    async def invite(self) -> None:
        """Whoever looks has a token of its own, as others have."""
        body = json.dumps({"name": "onlooker", "scopes": ["read"]}).encode()
        status, content = await self.ask(self.request("POST", "/tokens", body))
        assert status == 201, content
        self.guest = json.loads(content)["token"]

    async def looks(self) -> list[float]:
        """What others see meanwhile: each look is answered; how long each took."""
        asking = (sys.executable, "-m", "holdfast.testing.onlooker", self.host, str(self.port))
        onlooker = await asyncio.create_subprocess_exec(
            *asking, str(LOOKS), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        told, _ = await onlooker.communicate(self.guest.encode())
        assert onlooker.returncode == 0
        return sorted(json.loads(told))


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    lengths = [line for line in head.splitlines() if line.startswith("content-length:")]
    length = int(lengths[0].split(":")[1]) if lengths else 0
    return int(head.split()[1]), await reader.readexactly(length)


def tell(name: str, calm: list[float], meanwhile: list[float], crowd: Crowd) -> None:
    """For whoever takes figures: `pytest -s` shows it."""
    waits = " -> ".join(
        f"{1_000 * took[len(took) // 2]:.0f}/{1_000 * took[len(took) * 99 // 100]:.0f}"
        f"/{1_000 * took[-1]:.0f}"
        for took in (calm, meanwhile)
    )
    sys.stderr.write(
        f"\n{name}: half of the looks / 99 of 100 / all took up to {waits} ms, "
        f"{crowd.grown() / MIB:+.0f} MiB\n"
    )


def overloaded(tmp_path: Path, attack: Any, name: str, *options: str) -> None:
    with ServerProcess(tmp_path, *options) as server:
        crowd = Crowd(server)

        async def story() -> None:
            await crowd.invite()
            calm = await crowd.looks()
            meanwhile = await attack(crowd)
            tell(name, calm, meanwhile, crowd)

        asyncio.run(story())
        assert crowd.grown() < GROWTH_MAX
        assert not server.has_died()


def slow_connections(count: int) -> Any:
    async def attack(crowd: Crowd) -> list[float]:
        """Each begins a request and never ends it, a byte now and then."""
        lines = [await crowd.open() for _ in range(count)]
        head = crowd.request("POST", "/jobs", length=1_000)
        for _, writer in lines:
            writer.write(head[:40])
        meanwhile = await crowd.looks()
        for _, writer in lines:
            writer.write(head[40:])
            writer.write(b"{")
        meanwhile += await crowd.looks()
        for _, writer in lines:
            writer.close()
        return sorted(meanwhile)

    return attack


def large_body(size: int) -> Any:
    async def attack(crowd: Crowd) -> list[float]:
        """One says how much it sends, the other sends it all the same, in pieces without end."""
        status, _ = await crowd.ask(crowd.request("POST", "/jobs", length=size))
        assert status == 413
        reader, writer = await crowd.open()
        head = crowd.request("POST", "/jobs").replace(
            b"content-length: 0", b"transfer-encoding: chunked"
        )
        writer.write(head)
        piece = b"x" * 65_536
        sent = 0
        try:
            while sent < size and not reader.at_eof():
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await asyncio.wait_for(writer.drain(), 30)
                sent += len(piece)
        except (ConnectionError, TimeoutError):
            pass
        finally:
            writer.close()
        assert sent < size or size < 8 * MIB, "it took everything"
        return await crowd.looks()

    return attack


def submits(count: int) -> Any:
    async def attack(crowd: Crowd) -> list[float]:
        """One token that submits as fast as it can; others have tokens of their own."""
        body = json.dumps({"command": {"argv": ["true"]}}).encode()
        request = crowd.request("POST", "/jobs", body)
        seen = {201: 0, 429: 0, 503: 0}

        async def pour(share: int) -> None:
            reader, writer = await crowd.open()
            for _ in range(share):
                writer.write(request)
                status, _ = await answer_of(reader)
                seen[status] += 1
            writer.close()

        lines = 16
        pouring = asyncio.gather(*(pour(count // lines) for _ in range(lines)))
        meanwhile = await crowd.looks()
        await pouring
        assert sum(seen.values()) == count // lines * lines
        assert seen[201] > 0
        return meanwhile

    return attack


def bogus_commits(count: int) -> Any:
    async def attack(crowd: Crowd) -> list[float]:
        """Commits under leases that nobody ever had: each is told so, and the log grows not."""
        before = wal_bytes(crowd.server.data)
        position = await position_of(crowd)
        a_time = 1_000

        async def lie(incarnation: int, exchanges: int) -> None:
            reader, writer = await crowd.open()
            for number in range(1, exchanges + 1):
                done = [
                    {"job_id": "1", "index": n, "lease_id": 10**9 + n, "ran_ms": 1, "result": ""}
                    for n in range(a_time)
                ]
                said = {
                    "worker": f"liar{incarnation}", "incarnation": 1, "number": number,
                    "seen": number - 1, "started": [], "done": done, "failed": [],
                    "released": [], "held": [], "occupied": 0, "draining": True,
                    "capacity": {"slots": 0, "cpus_milli": 0, "memory_bytes": 0, "gpus": 0},
                }  # fmt: skip
                writer.write(crowd.request("POST", "/exchange", json.dumps(said).encode()))
                status, content = await answer_of(reader)
                assert status == 200, content
                assert content.count(b"LEASE_LOST") == a_time
            writer.close()

        lines = 4
        lying = asyncio.gather(*(lie(n, max(1, count // a_time // lines)) for n in range(lines)))
        meanwhile = await crowd.looks()
        await lying
        assert await position_of(crowd) == position
        assert wal_bytes(crowd.server.data) == before
        return meanwhile

    return attack


async def position_of(crowd: Crowd) -> int:
    _, content = await crowd.ask(crowd.request("GET", "/transactions?limit=1"))
    return int(json.loads(content)["transactions"][-1]["position"])


def wal_bytes(data: Path) -> int:
    return sum(path.stat().st_size for path in (data / "wal").rglob("*") if path.is_file())


SHARE = {
    "slow connections": slow_connections(100), "a large body": large_body(64 * MIB),
    "submits of one token": submits(3_200), "bogus commits": bogus_commits(20_000),
}  # fmt: skip
WHOLE = {
    "1,000 slow connections": slow_connections(1_000), "a body of 1 GiB": large_body(1_024 * MIB),
    "100,000 submits of one token": submits(100_000),
    "1,000,000 bogus commits": bogus_commits(1_000_000),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARE)
def test_too_much_of_it_harms_nobody_else(tmp_path: Path, name: str) -> None:
    overloaded(tmp_path, SHARE[name], name)


@pytest.mark.soak
@pytest.mark.parametrize("name", WHOLE)
def test_far_too_much_of_it_harms_nobody_else(tmp_path: Path, name: str) -> None:
    overloaded(tmp_path, WHOLE[name], name)

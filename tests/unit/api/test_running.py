"""A whole server inside a test: what ends it, and how."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from holdfast.api import protocol
from holdfast.api.listening import Address, CannotListen, bind
from holdfast.api.plan import Plan
from holdfast.api.running import Ready, serve
from holdfast.coordinator.taking import take_folder
from holdfast.core.errors import LogFailed

TERM_MS = 15_000
HEAD_S = 0.7


class Breaking:
    """A disk that fails when it is told to."""

    def __init__(self) -> None:
        self.broken = False

    def reach(self, point: str) -> None:
        if self.broken and point == "log.before_sync":
            raise OSError(5, "Input/output error")


def run(folder: Path, act, faults=None, **options) -> None:
    door, address = bind(Address("127.0.0.1", 0))
    plan = Plan(address=address, token_file=folder / "token", term_ms=TERM_MS, **options)

    async def whole() -> None:
        acting: list[asyncio.Task] = []

        def ready(here: Ready) -> None:
            token = plan.token_file.read_text().strip()
            acting.append(asyncio.ensure_future(act(address, token)))

        try:
            await serve(take_folder(folder / "data", term_ms=TERM_MS), door, plan, ready, faults)
        finally:
            await asyncio.gather(*acting)

    with door:
        asyncio.run(whole())


async def ask(address: Address, token: str, request: str, body: str = "") -> bytes:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(
        f"{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    told = await reader.read()
    writer.close()
    await writer.wait_closed()
    return told


@pytest.mark.slow
def test_a_signal_ends_it_in_good_order(tmp_path):
    async def act(address, token):
        assert b"200 OK" in await ask(address, token, "GET /api/v1/version")
        os.kill(os.getpid(), signal.SIGTERM)

    run(tmp_path, act)


@pytest.mark.slow
def test_a_log_that_fails_ends_it_and_nothing_more_is_acknowledged(tmp_path):
    faults = Breaking()

    async def act(address, token):
        faults.broken = True
        body = '{"command": {"argv": ["true"]}}'
        told = await ask(address, token, "POST /api/v1/jobs", body)
        assert b"201" not in told[:12]

    with pytest.raises(LogFailed, match="What was acknowledged is safe"):
        run(tmp_path, act, faults)


def test_a_certificate_that_is_none_is_told_before_anybody_is_let_in(tmp_path):
    (tmp_path / "cert").write_text("nonsense")

    async def act(address, token):
        raise AssertionError("it must not get this far")

    with pytest.raises(CannotListen, match="no certificate"):
        run(tmp_path, act, tls_cert=str(tmp_path / "cert"), tls_key=str(tmp_path / "cert"))


@pytest.mark.slow
def test_a_stranger_with_an_endless_or_a_slow_head_is_let_go(tmp_path, monkeypatch):
    async def act(address, token):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET /livez HTTP/1.1\r\nX: ")
        while not reader.at_eof() and not writer.is_closing():
            writer.write(b"x" * 10_000)
            try:
                await asyncio.wait_for(writer.drain(), 1)
                told = await asyncio.wait_for(reader.read(12), 0.01)
            except (ConnectionError, TimeoutError):
                continue
            assert told in (b"HTTP/1.1 400", b"")
            break
        writer.close()
        # Long enough that a busy machine gets a whole head there in time.
        monkeypatch.setattr(protocol, "HEAD_S", HEAD_S)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET /livez")
        assert await reader.read() == b""
        writer.close()
        # Whoever asks properly may take a connection's time.
        reader, writer = await asyncio.open_connection(address.host, address.port)
        for _ in range(2):
            writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            await reader.readexactly(15)
            await asyncio.sleep(1.5 * HEAD_S)
        writer.close()
        os.kill(os.getpid(), signal.SIGTERM)

    run(tmp_path, act)

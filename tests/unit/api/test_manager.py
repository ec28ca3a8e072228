"""What the system's manager hears, and what it does not hear of a loop that is stuck."""

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.api.manager import ALIVE, READY, show_life, tell_manager, watchdog_s


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
        wire.bind(str(tmp_path / "notify"))
        wire.setblocking(False)
        yield wire


def heard(manager: socket.socket) -> list[str]:
    words = []
    while True:
        try:
            words.append(manager.recv(100).decode())
        except BlockingIOError:
            return words


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_it_is_heard_twice_as_often_as_it_must_be(
    told: dict[str, str], expected: float | None
) -> None:
    assert watchdog_s(told, 7) == expected


def test_a_loop_that_turns_is_heard_and_one_that_is_stuck_is_not(
    manager: socket.socket, tmp_path: Path
) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"}

    async def turn() -> None:
        task = asyncio.ensure_future(show_life(environment))
        words: list[str] = []
        while len(words) < 3:
            await asyncio.sleep(0.001)
            words += heard(manager)
        assert set(words) == {ALIVE}
        # Five times as long as it may be silent, and nobody else speaks for it.
        time.sleep(0.1)
        assert heard(manager) == []
        while not heard(manager):
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(turn())


def test_without_a_watchdog_nothing_is_said(manager: socket.socket, tmp_path: Path) -> None:
    asyncio.run(show_life({"NOTIFY_SOCKET": str(tmp_path / "notify")}))
    assert heard(manager) == []


def test_a_manager_that_does_not_read_holds_nobody_up(
    manager: socket.socket, tmp_path: Path
) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    for _ in range(2_000):
        tell_manager(READY, environment)
    assert 0 < len(heard(manager)) < 2_000
    tell_manager(READY, {"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    tell_manager(READY, {})


def test_a_name_that_is_no_path_is_one_of_the_kernel() -> None:
    name = f"holdfast-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
        wire.bind("\0" + name)
        wire.setblocking(False)
        tell_manager(READY, {"NOTIFY_SOCKET": f"@{name}"})
        assert heard(wire) == [READY]

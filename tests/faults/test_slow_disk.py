"""A disk that takes its time, or answers nothing for longer than a lease: nobody is blamed for it,
nothing piles up, and the server goes on listening."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from holdfast.coordinator.inspect import open_folder
from holdfast.core import events as e
from holdfast.testing.asking_jobs import Asker
from holdfast.testing.blocks import NEEDS, BadDisk
from holdfast.testing.crowds import Crowd
from holdfast.testing.fleet import wait_until
from holdfast.testing.loopback import ServerProcess
from holdfast.testing.watching_life import Pulse
from holdfast.wire.bodies import Submit
from holdfast.wire.http import Http, Server

pytestmark = pytest.mark.needs(*NEEDS)

WORKERS = 20
ASKERS = 4
GROWTH_BYTES = 50 * 2**20
JOB = "/api/v1/jobs"


class Endured(NamedTuple):
    promises: int
    grown: int
    p99_s: float


def be_slow(
    server: ServerProcess, disk: BadDisk, slow_s: float, stuck_s: float
) -> Endured:
    """People ask for jobs, and the disk is slow, stuck, and slow again."""
    with ExitStack() as leaving:
        askers = [
            leaving.enter_context(Asker(server, f"asker {number}")) for number in range(ASKERS)
        ]
        pulse = leaving.enter_context(Pulse(server))
        process = psutil.Process(server.pid)
        before = process.memory_info().rss
        time.sleep(slow_s)
        disk.stall()
        time.sleep(stuck_s)
        disk.go_on()
        time.sleep(slow_s)
        grown = process.memory_info().rss - before
    promises = sum(len(asker.promised) for asker in askers)
    return Endured(promises, grown, round(pulse.slowest_but_one_of_a_hundred_s(), 3))


def endure(
    tmp_path: Path, *, delay_ms: int, term_s: float, slow_s: float, stuck_s: float
) -> Endured:
    """Workers hold leases all the while, and lose none."""
    with ExitStack() as leaving:
        disk = leaving.enter_context(BadDisk(tmp_path, delay_ms=delay_ms))
        (disk.place / "data").mkdir()
        (tmp_path / "data").symlink_to(disk.place / "data")
        server = ServerProcess(tmp_path, "--lease-term", f"{term_s:g}s")
        leaving.enter_context(server)
        reach = Server(url=server.url, token=server.token)
        http = Http(reach)
        leaving.callback(http.close)
        body = Submit(kind="array", target="nowhere:played", count=WORKERS, shared=b"payload")
        job = http.post(JOB, body, dict, key="long")["id"]
        crowd = leaving.enter_context(Crowd(reach, WORKERS))
        wait_until(lambda: crowd.running() == WORKERS)
        endured = be_slow(server, disk, slow_s, stuck_s)
        crowd.finish()
        ended = http.get(f"{JOB}/{job}", dict, wait="60s")
        assert ended["state"] == "SUCCEEDED"
        server.kill()
        events = [
            x for told in open_folder(server.data).folder.records() for x in told.record.events
        ]
    assert [x for x in events if isinstance(x, e.AttemptsReturned | e.TasksQuarantined)] == []
    assert endured.grown < GROWTH_BYTES
    assert endured.promises > 0
    return endured


@pytest.mark.slow
def test_nobody_is_blamed_for_a_disk_that_is_slow_or_stuck_for_longer_than_a_lease(
    tmp_path: Path,
) -> None:
    endure(tmp_path, delay_ms=50, term_s=4, slow_s=4, stuck_s=8)


@pytest.mark.soak
@pytest.mark.parametrize("delay_ms", [50, 500, 2_000])
def test_nobody_is_blamed_for_a_disk_that_is_very_slow_and_stuck_for_half_a_minute(
    tmp_path: Path, delay_ms: int, record_testsuite_property: Callable[[str, object], None]
) -> None:
    came_to = endure(tmp_path, delay_ms=delay_ms, term_s=15, slow_s=20, stuck_s=30)
    record_testsuite_property(f"slow disk {delay_ms}", repr(came_to))

"""Clocks that are set, and machines that were started at another time: leases live by neither.

The wall clock of a running server jumps by hours and days, to and fro; and a server comes back on a
machine whose uptime is another. Workers hold leases all the while, and lose none; what the log
tells is the same whenever it is told.
"""

import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from holdfast.coordinator.inspect import open_folder
from holdfast.core import events as e
from holdfast.core.freeze import fingerprint
from holdfast.core.invariants import check
from holdfast.core.watch import Watch
from holdfast.testing.crowds import Crowd
from holdfast.testing.fleet import wait_until
from holdfast.testing.jumping import DAY_S, HOUR_S, JUMPS_S, NEEDS, WallClock, started_at
from holdfast.testing.loopback import ServerProcess
from holdfast.testing.tools import ROOT
from holdfast.wire.bodies import Submit
from holdfast.wire.http import Http, Server

WORKERS = 20
TERM_S = 4.0
JOBS = "/api/v1/jobs"
SHARE = 12
SOAK_JUMPS = 100
LIVES = 3
SOAK_LIVES = 20


def judge(folder: Path) -> None:
    """Nobody has lost a lease, nothing was granted twice, and it is always the same story."""
    reading = open_folder(folder)
    assert check(reading.state) == ()
    assert fingerprint(open_folder(folder).state) == fingerprint(reading.state)
    watch, before = Watch(), 0
    for told in reading.folder.records():
        assert watch.feed(told.position, told.record) == ()
        assert told.record.at >= before
        before = told.record.at
        for event in told.record.events:
            assert not isinstance(event, e.AttemptsReturned | e.TasksQuarantined)


def work_through(server: ServerProcess, happen: Callable[[Http], None]) -> None:
    """Workers hold leases while something happens, and commit after it."""
    with server:
        reach = Server(url=server.url, token=server.token)
        http = Http(reach)
        body = Submit(kind="array", target="nowhere:played", count=WORKERS, shared=b"payload")
        job = http.post(JOBS, body, dict, key="long")["id"]
        with Crowd(reach, WORKERS) as crowd:
            wait_until(lambda: crowd.running() == WORKERS)
            happen(http)
            crowd.finish()
            assert http.get(f"{JOBS}/{job}", dict, wait="60s")["state"] == "SUCCEEDED"
        http.close()
        server.stop()
    judge(server.data)


def jump(tmp_path: Path, dice: Random, times: int) -> None:
    clock = WallClock(tmp_path)
    server = ServerProcess(
        tmp_path, "--lease-term", f"{TERM_S:g}s", environment=clock.environment
    )

    def happen(http: Http) -> None:
        for number in range(times):
            clock.set(dice.choice(JUMPS_S))
            # So that the server looks at its clocks, and the log has a frame of it. Whoever sets
            # the clock slows the server down, too: its waits end up to two seconds late.
            body = Submit(kind="array", target="nowhere:played", count=1, delay="1h")
            http.post(JOBS, body, dict, key=f"jump {number}")

    work_through(server, happen)
    # Else nothing was set at all, and nothing was shown.
    walls = {told.offset // (60 * 1_000) for told in open_folder(server.data).folder.records()}
    assert len(walls) > 2


def restart(tmp_path: Path, dice: Random, lives: int) -> None:
    server = ServerProcess(tmp_path, "--lease-term", f"{TERM_S:g}s")

    def happen(http: Http) -> None:
        for _ in range(lives):
            server.kill()
            server.under = started_at(dice.choice((0, HOUR_S, DAY_S, 30 * DAY_S)))
            server.start()
            wait_until(lambda: http.get(f"{JOBS}/1", dict)["counts"]["RUNNING"] == WORKERS)
            time.sleep(TERM_S)

    work_through(server, happen)


@pytest.mark.slow
@pytest.mark.needs(*NEEDS)
def test_a_wall_clock_that_is_set_takes_no_lease_from_anybody(
    tmp_path: Path, dice: Random
) -> None:
    jump(tmp_path, dice, SHARE)


@pytest.mark.soak
@pytest.mark.needs(*NEEDS)
def test_a_wall_clock_that_is_set_a_hundred_times_takes_no_lease_from_anybody(
    tmp_path: Path, dice: Random
) -> None:
    jump(tmp_path, dice, SOAK_JUMPS)


@pytest.mark.slow
@pytest.mark.needs(ROOT, "unshare")
def test_a_machine_that_was_started_at_another_time_takes_no_lease_from_anybody(
    tmp_path: Path, dice: Random
) -> None:
    restart(tmp_path, dice, LIVES)


@pytest.mark.soak
@pytest.mark.needs(ROOT, "unshare")
def test_twenty_machines_that_were_started_at_other_times_take_no_lease_from_anybody(
    tmp_path: Path, dice: Random
) -> None:
    restart(tmp_path, dice, SOAK_LIVES)

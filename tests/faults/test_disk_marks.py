"""A real server on a disk that fills up: work is refused first, what runs still ends, and a start
needs no room."""

import secrets
from pathlib import Path
from typing import Any

import pytest

from holdfast.coordinator.verify import verify_folder
from holdfast.testing.fleet import wait_until
from holdfast.testing.handmade import Hand
from holdfast.testing.loopback import ServerProcess
from holdfast.testing.mounts import in_memory
from holdfast.testing.tools import ROOT
from holdfast.wal import Ballast, RealDisk
from holdfast.wire.bodies import Submit
from holdfast.wire.http import Http, Rejected, Server

pytestmark = pytest.mark.needs(ROOT)

JOBS = "/api/v1/jobs"
BODY = Submit(kind="array", target="nowhere:played", count=2, shared=b"payload")
DISK_BYTES = 64 * 1024 * 1024
CHUNK = bytes(64 * 1024)


def fill(place: Path, *, leave: int = 0) -> Path:
    """Take all room but `leave` bytes, as somebody else's files do."""
    filler = place / "filler"
    with filler.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(CHUNK)
        except OSError:
            pass
    with filler.open("r+b") as file:
        file.truncate(max(0, filler.stat().st_size - leave))
    return filler


def disk_of(http: Http) -> dict[str, Any]:
    return dict(http.get("/api/v1/doctor", dict)["disk"])


def refusal(http: Http) -> str:
    """Why no more work is taken; empty where it is. A repeat would be answered in any case."""
    try:
        http.post(JOBS, BODY, dict, key=secrets.token_hex(8))
    except Rejected as no:
        return no.problem.code
    return ""


@pytest.mark.slow
def test_what_runs_ends_on_a_full_disk_and_a_start_needs_no_room(tmp_path: Path) -> None:
    with in_memory(tmp_path / "small", DISK_BYTES) as small_disk:
        live_through_it(small_disk)


def live_through_it(small_disk: Path) -> None:
    server = ServerProcess(small_disk, "--check-interval", "0s")
    ballast = Ballast(RealDisk(), server.data)
    with server:
        http = Http(Server(url=server.url, token=server.token), patience_s=0.5)
        job = http.post(JOBS, BODY, dict, key="first")["id"]
        hand = Hand(http, "by-hand")
        first, second = hand.take(2)
        wait_until(ballast.is_held)
        filler = fill(small_disk, leave=2 * 1024 * 1024)
        # Any command makes it look: room that goes is noticed by whoever takes it.
        wait_until(lambda: refusal(http) == "disk_low")
        hand.succeed(first)
        fill(small_disk)
        wait_until(lambda: refusal(http) == "disk_full")
        wait_until(lambda: not ballast.is_held())
        fill(small_disk, leave=256 * 1024)
        hand.succeed(second)
        assert http.get(f"{JOBS}/{job}", dict, wait="60s")["state"] == "SUCCEEDED"
        fill(small_disk)
        server.kill()
        server.start()
        assert disk_of(http)["free"] < DISK_BYTES // 100
        assert http.get(f"{JOBS}/{job}", dict)["state"] == "SUCCEEDED"
        assert refusal(http) == "disk_full"
        filler.unlink()
        wait_until(lambda: refusal(http) == "")
        wait_until(ballast.is_held)
        http.close()
        server.stop()
    assert verify_folder(server.data).is_good

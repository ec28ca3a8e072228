"""A worker that dies between being given a task and starting it, and comes back under its name."""

from collections import Counter
from pathlib import Path

import pytest

from holdfast.coordinator.inspect import open_folder
from holdfast.core import events as e
from holdfast.core.invariants import check
from holdfast.testing.handmade import Hand
from holdfast.testing.loopback import ServerProcess
from holdfast.wire.bodies import Submit
from holdfast.wire.exchange import Done, Started
from holdfast.wire.http import Http, Server

JOBS = "/api/v1/jobs"
SHARE = 10
SOAK = 200


def die_before_the_start(http: Http, number: int) -> None:
    """Given and never begun; the successor under the same name has it again, and the one that was
    thought dead is heard no more."""
    body = Submit(kind="array", target="nowhere:played", count=1, shared=b"payload")
    job = http.post(JOBS, body, dict, key=f"job {number}")["id"]
    dead, born = (
        Hand(http, "phoenix", 2 * number + after, lock="the same") for after in (1, 2)
    )
    ((_, index, lease),) = dead.take()
    ((run, again, fresh),) = born.take()
    assert (run.job_id, again, fresh > lease) == (job, index, True)
    told = dead.exchange(
        started=(Started(job, index, lease, 1),), done=(Done(job, index, lease, 5, b"\xc0"),)
    )
    assert "another worker called phoenix is at work" in told.refused
    born.succeed((run, again, fresh))
    assert http.get(f"{JOBS}/{job}", dict, wait="30s")["state"] == "SUCCEEDED"


def rise_again_and_again(tmp_path: Path, times: int) -> None:
    # Nothing here waits for a lease to end: had one to, this would take hours.
    with ServerProcess(tmp_path, "--lease-term", "10m") as server:
        http = Http(Server(url=server.url, token=server.token))
        for number in range(times):
            die_before_the_start(http, number)
        http.close()
        server.stop()
    reading = open_folder(server.data)
    assert check(reading.state) == ()
    commits: Counter[str] = Counter()
    charged: Counter[str] = Counter()
    for told in reading.folder.records():
        for event in told.record.events:
            if isinstance(event, e.TasksCompleted):
                commits[event.job_id] += len(event.commits)
            elif isinstance(event, e.AttemptsReturned):
                charged.update(end.charged for end in event.ends)
    assert set(commits.values()) == {1}
    assert len(commits) == times
    assert charged == {"": times}, "what never began costs nothing"


@pytest.mark.slow
def test_a_task_that_was_given_to_the_dead_is_given_to_the_successor_at_once(
    tmp_path: Path,
) -> None:
    rise_again_and_again(tmp_path, SHARE)


@pytest.mark.soak
def test_a_worker_rises_two_hundred_times_under_its_name(tmp_path: Path) -> None:
    rise_again_and_again(tmp_path, SOAK)

"""A server that was away for a while: nobody is blamed for its silence."""

import time
from pathlib import Path

import pytest

from holdfast.coordinator.inspect import open_folder
from holdfast.core import events as e
from holdfast.testing.crowds import Crowd
from holdfast.testing.fleet import wait_until
from holdfast.testing.loopback import ServerProcess
from holdfast.wire.bodies import Submit
from holdfast.wire.http import Http, Server

WORKERS = 200
TERM_S = 8.0
JOB = "/api/v1/jobs"


@pytest.mark.slow
def test_two_hundred_workers_lose_nothing_to_an_outage_longer_than_their_leases(
    tmp_path: Path,
) -> None:
    server = ServerProcess(tmp_path, "--lease-term", f"{TERM_S:g}s")
    with server:
        reach = Server(url=server.url, token=server.token)
        http = Http(reach)
        body = Submit(kind="array", target="nowhere:played", count=WORKERS, shared=b"payload")
        job = http.post(JOB, body, dict, key="outage")["id"]
        with Crowd(reach, WORKERS) as crowd:
            wait_until(lambda: crowd.running() == WORKERS)
            server.kill()
            time.sleep(1.5 * TERM_S)
            server.start()
            # More than a term with the server back: whoever was not re-armed would expire now.
            wait_until(lambda: http.get(f"{JOB}/{job}", dict)["counts"]["RUNNING"] == WORKERS)
            time.sleep(1.5 * TERM_S)
            crowd.finish()
            ended = http.get(f"{JOB}/{job}", dict, wait="60s")
        http.close()
        server.stop()
    assert ended["state"] == "SUCCEEDED"
    events = [x for told in open_folder(server.data).folder.records() for x in told.record.events]
    assert [x for x in events if isinstance(x, e.AttemptsReturned)] == []
    assert sum(len(x.commits) for x in events if isinstance(x, e.TasksCompleted)) == WORKERS
    assert any(isinstance(x, e.LeasesRearmed) for x in events)

"""A server that is away for ten minutes, with the terms that everybody has: nobody is blamed, and
those who come back do not come all at once."""

import time
from collections import Counter
from collections.abc import Callable
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
AWAY_S = 600.0
TERM_S = 15.0
JOBS = "/api/v1/jobs"


def busiest(sent: list[float], since: float, until: float) -> int:
    """How many exchanges came in the busiest second of that time."""
    seconds = Counter(int(at - since) for at in sent if since <= at < until)
    return max(seconds.values(), default=0)


@pytest.mark.soak
def test_two_hundred_workers_lose_nothing_to_an_outage_of_ten_minutes(
    tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    with ServerProcess(tmp_path, "--lease-term", f"{TERM_S:g}s") as server:
        reach = Server(url=server.url, token=server.token)
        http = Http(reach, patience_s=AWAY_S)
        body = Submit(kind="array", target="nowhere:played", count=WORKERS, shared=b"payload")
        job = http.post(JOBS, body, dict, key="outage")["id"]
        with Crowd(reach, WORKERS) as crowd:
            wait_until(lambda: crowd.running() == WORKERS)
            steady_from = time.monotonic()
            time.sleep(2 * TERM_S)
            steady = busiest(crowd.sent, steady_from, time.monotonic())
            server.kill()
            time.sleep(AWAY_S)
            server.start()
            back_at = time.monotonic()
            wait_until(lambda: http.get(f"{JOBS}/{job}", dict)["counts"]["RUNNING"] == WORKERS)
            # More than a term with the server back: whoever was not re-armed would expire now.
            time.sleep(2 * TERM_S)
            herd = busiest(crowd.sent, back_at, back_at + TERM_S)
            crowd.finish()
            ended = http.get(f"{JOBS}/{job}", dict, wait="60s")
        http.close()
        server.stop()
    assert ended["state"] == "SUCCEEDED"
    events = [x for told in open_folder(server.data).folder.records() for x in told.record.events]
    assert [x for x in events if isinstance(x, e.AttemptsReturned)] == []
    assert sum(len(x.commits) for x in events if isinstance(x, e.TasksCompleted)) == WORKERS
    told = {"workers": WORKERS, "busiest second before": steady, "after": herd}
    record_testsuite_property("outage", repr(told))
    assert herd <= 2 * steady

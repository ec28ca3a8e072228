"""What replicas answer, read from the counters they offer over a real connection."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from holdfast.core.ids import LeaseId
from holdfast.wire.exchange import Sample
from holdfast.wire.service import ServicePlan
from holdfast.wire.servicing import servicing_problem
from holdfast.worker import sampling
from holdfast.worker.replica import Replica
from holdfast.worker.sampling import Meter

LEASE = LeaseId(7)
SPAN_MS = 5_000
PATIENCE_MS = 60_000


@pytest.fixture(autouse=True)
def _machines_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long an answer may take is not looked at here."""
    monkeypatch.setattr(sampling, "SCRAPE_MS", PATIENCE_MS)


@contextmanager
def offering(*texts: str) -> Iterator[int]:
    """A function that offers these, one after the other; the port where it does."""
    left = list(texts)

    class Function(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = left.pop(0) if self.path == "/metrics" and left else None
            self.send_response(200 if text is not None else 404)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *_: object) -> None:
            """Tests print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Function)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def sampled(
    port: int, times: int, *, metrics: str = "/metrics", scrape: bool = True
) -> list[Sample]:
    """Looked at every five seconds, by a clock of its own."""
    plan = ServicePlan(argv=("x",), ports=("http",), metrics=metrics)
    replica = Replica(LEASE, plan, "127.0.0.1", {"http": port})
    replica.pid = os.getpid()
    meter = Meter()
    meter.begin(replica, 0)

    async def look() -> list[Sample]:
        found = [
            await meter.sample(LEASE, lambda at=at: at, is_scraped=scrape)  # type: ignore[misc]
            for at in range(SPAN_MS, SPAN_MS * (times + 1), SPAN_MS)
        ]
        return [sample for sample in found if sample is not None]

    return asyncio.run(look())


def counted(requests: int, seconds: float) -> str:
    name = "http_request_duration_seconds"
    return (
        f'http_requests_total{{path="/"}} {requests}\n'
        f'http_requests_total{{path="/metrics"}} {requests * 9}\n'
        f"{name}_count {requests}\n{name}_sum {seconds}\n"
    )


def test_rates_come_from_two_looks_and_leave_out_the_looking_itself() -> None:
    with offering(counted(100, 1.0), counted(150, 2.0), counted(150, 2.0)) as port:
        first, second, third = sampled(port, 3)
    assert (first.requests_per_s, first.latency_ms, first.problem) == (None, None, "")
    assert (second.requests_per_s, second.latency_ms) == (10.0, 20.0)
    assert (third.requests_per_s, third.latency_ms) == (0.0, None)
    assert second.memory_bytes > 0


def test_what_cannot_be_read_says_why_and_begins_anew() -> None:
    with offering(counted(100, 1.0), "up 1\n", counted(100, 1.0), counted(200, 1.0)) as port:
        found = sampled(port, 5)
    assert found[1].problem == "metrics: no requests among 1 metrics; docs/nfr.md lists the names"
    assert found[1].requests_per_s is None
    assert (found[2].requests_per_s, found[2].problem) == (None, "")
    assert found[3].requests_per_s == 20.0
    assert found[4].problem == "metrics: http /metrics answered 404"


def test_nothing_is_asked_where_it_was_not_ordered_or_nothing_is_offered() -> None:
    with offering() as port:
        for found in (sampled(port, 2, scrape=False), sampled(port, 2, metrics="")):
            assert [(each.requests_per_s, each.problem) for each in found] == [(None, "")] * 2


def test_numbers_that_nobody_can_believe_are_a_problem_of_this_replica_alone() -> None:
    small, huge = "http_requests_total 1\n", 'http_requests_total{a="1"} 1.7e308\n'
    with offering(small, huge * 3, small) as port:
        _, strange, _ = sampled(port, 3)
    assert strange.requests_per_s is None
    assert strange.problem == "metrics: they are no numbers of requests"
    # An exchange that says what cannot be is refused whole, and with it all that runs here.
    assert servicing_problem((), (strange,)) == ""


def test_a_problem_that_takes_long_to_tell_is_cut() -> None:
    with offering() as port:
        (sample,) = sampled(port, 1, metrics="/" + "long" * 2_000)
    assert sample.problem.startswith("metrics: http /long")
    assert servicing_problem((), (sample,)) == ""

"""Asking a member of a data grid about its partitions over a real connection."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from holdfast.core.ids import LeaseId
from holdfast.wire.partitions import ANSWER_BYTES_MAX
from holdfast.wire.service import Probe, ServicePlan
from holdfast.wire.servicing import PartitionClaim, PartitionNews
from holdfast.worker.partitions import ask_partitions
from holdfast.worker.replica import Replica

LEASE = LeaseId(7)
LONG_MS = 30_000
WELL = json.dumps({"partitions": [{"name": "0", "members": 1, "ready": 1, "leader": "a"}]})


@contextmanager
def answering(status: int, body: bytes, over: threading.Event | None = None) -> Iterator[int]:
    """A member that answers so, once it is over; the port where it does."""

    class Grid(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if over is not None:
                over.wait()
            self.send_response(status if self.path == "/partitions" else 404)
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                """Nobody listens any more."""

        def log_message(self, *_: object) -> None:
            """Tests print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Grid)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        if over is not None:
            over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def asked(port: int, timeout_ms: int = LONG_MS) -> PartitionNews:
    probe = Probe(kind="http", path="/partitions", period_ms=200, timeout_ms=timeout_ms)
    plan = ServicePlan(argv=("grid",), partitions=probe)
    return asyncio.run(ask_partitions(Replica(LEASE, plan, "127.0.0.1", {"http": port}), probe))


def test_an_answer_is_told_with_how_soon_the_next_will_be() -> None:
    with answering(200, WELL.encode()) as port:
        found = asked(port)
    assert found == PartitionNews(LEASE, (PartitionClaim("0", 1, 1, "a"),), LONG_MS)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, b"", "http /partitions answered 404"),
        (204, b"", "http /partitions answered 204"),
        (200, b"up", "http /partitions: no answer about partitions: JSON is malformed"),
        (200, b"[" + b" " * ANSWER_BYTES_MAX,
         f"http /partitions: the answer is longer than {ANSWER_BYTES_MAX} bytes"),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_told_as_that(status: int, body: bytes, said: str) -> None:
    with answering(status, body) as port:
        found = asked(port)
    assert (found.lease_id, found.claims, found.turn_ms) == (LEASE, (), LONG_MS)
    assert found.problem.startswith(said)


def test_a_member_that_is_silent_is_not_waited_for() -> None:
    with answering(200, WELL.encode(), threading.Event()) as port:
        found = asked(port, timeout_ms=50)
    assert (found.problem, found.turn_ms) == ("http /partitions: no answer within 0.05 s", 200)

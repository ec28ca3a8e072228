"""Commits, repeated commits and cancels of the same tasks, sent to a real server at one moment: by
the order of its log exactly one wins, and everybody is told the truth about it."""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.coordinator.inspect import look_into
from holdfast.core import events as e
from holdfast.core.ids import WorkerId
from holdfast.testing.loopback import ServerProcess
from holdfast.wire.answers import Rejected
from holdfast.wire.bodies import Command, Reason, Submit
from holdfast.wire.exchange import (
    COMMITTED,
    LEASE_LOST,
    Capacity,
    Done,
    Exchange,
    Hello,
    Item,
    Reply,
    Run,
)  # fmt: skip
from holdfast.wire.http import Http, Server

SLOTS = 4


class Racer:
    """One connection of its own, and a worker's number to count on."""

    def __init__(self, http: Http) -> None:
        self.http = http
        self.number = 0
        self.held: tuple[int, ...] = ()

    def message(self, done: tuple[Done, ...] = ()) -> Exchange:
        self.number += 1
        return Exchange(
            WorkerId("racer"), 1, self.number, self.number - 1, Capacity(SLOTS, 4_000, 1 << 30, 0),
            (), done, (), (), self.held, 0, False, Hello("here", 1, "1"),
        )  # fmt: skip

    def exchange(self, message: Exchange) -> Reply:
        return self.http.post("/api/v1/exchange", message, Reply)

    def take(self, count: int) -> list[tuple[Run, Item]]:
        found: list[tuple[Run, Item]] = []
        while len(found) < count:
            reply = self.exchange(self.message())
            found += [(run, item) for run in reply.runs for item in run.items]
            self.held = tuple(item.lease_id for _, item in found)
        return found


def at_once(*deeds: Callable[[], Any]) -> list[Any]:
    """All begin at the same moment, each in a thread of its own."""
    gate, results = threading.Barrier(len(deeds)), [None] * len(deeds)

    def run(place: int) -> None:
        gate.wait()
        results[place] = deeds[place]()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(deeds))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def said(http: Http, message: Exchange) -> Reply | None:
    """The answer; None where it went to another who said the same."""
    try:
        return http.post("/api/v1/exchange", message, Reply)
    except Rejected:
        return None


class Track:
    """Three connections to one server, and what was answered about each task."""

    def __init__(self, server: ServerProcess, stack: ExitStack) -> None:
        self._server = server
        self._stack = stack
        self.racer = Racer(self.http())
        self.repeater, self.canceller = self.http(), self.http()
        self.told: dict[tuple[str, int], str] = {}
        self.seen: Counter[str] = Counter()

    def http(self) -> Http:
        server = Server(url=self._server.url, token=self._server.token)
        return self._stack.enter_context(closing(Http(server)))

    def race(self, *, cancels_one: bool) -> None:
        body = Submit(command=Command(argv=["true"]), count=SLOTS)
        job = self.canceller.post("/api/v1/jobs", body, dict)["id"]
        leased = self.racer.take(SLOTS)
        self.racer.held = ()
        done = tuple(Done(job, item.index, item.lease_id, 1, b"\xc0") for _, item in leased)
        message = self.racer.message(done)
        target = f"/api/v1/tasks/{job}/0/cancel" if cancels_one else f"/api/v1/jobs/{job}/cancel"
        first, again, _ = at_once(
            lambda: said(self.racer.http, message),
            lambda: said(self.repeater, message),
            lambda: self.canceller.post(target, Reason(reason="enough"), dict),
        )
        # Of two that say the same, the one that came first may be told that it was said again.
        for reply in (first or said(self.racer.http, message), again):
            if reply is None:
                continue
            lost = {v.lease_id for v in reply.verdicts if v.verdict == LEASE_LOST}
            for report in done:
                verdict = LEASE_LOST if report.lease_id in lost else COMMITTED
                known = self.told.setdefault((job, report.index), verdict)
                assert known == verdict, "one was told yes and the other no"
                self.seen[verdict] += 1


def race(tmp_path: Path, rounds: int) -> Counter[str]:
    with ServerProcess(tmp_path) as server, ExitStack() as stack:
        track = Track(server, stack)
        for number in range(rounds):
            track.race(cancels_one=bool(number % 2))
    ends: dict[tuple[str, int], list[str]] = {}
    folder = look_into(server.data)
    for told in folder.records(folder.oldest, folder.last):
        for event in told.record.events:
            if isinstance(event, e.TasksCompleted):
                for commit in event.commits:
                    ends.setdefault((event.job_id, commit.index), []).append(COMMITTED)
            elif isinstance(event, e.TasksKilled):
                for end in event.ends:
                    ends.setdefault((event.job_id, end.index), []).append(LEASE_LOST)
    assert {task: [verdict] for task, verdict in track.told.items()} == ends
    return track.seen


@pytest.mark.slow
def test_001_92_a_thousand_real_races_have_one_winner_each(tmp_path: Path) -> None:
    seen = race(tmp_path, 1_000 // SLOTS)
    assert min(seen[COMMITTED], seen[LEASE_LOST]) > 0, seen

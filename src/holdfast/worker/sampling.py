"""What replicas take, and what they answer: processor and memory of each with everything it has
started, and the counters it offers itself.

Rates are differences between two looks, so the first look says nothing of them. What the replica
was asked by us, probes and these very looks, is left out where its counters tell paths apart.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import psutil

from holdfast.core.ids import LeaseId
from holdfast.wire.exchange import Sample
from holdfast.wire.scraped import Reading, Traffic, read, traffic
from holdfast.wire.service import HTTP
from holdfast.wire.servicing import servicing_problem
from holdfast.worker.probing import Unwell, read_http
from holdfast.worker.replica import Replica

SAMPLE_MS: Final = 5_000
SCRAPE_MS: Final = 2_000
PROBLEM_CHARACTERS_MAX: Final = 500


class Look:
    """A replica as it was seen last."""

    def __init__(self, replica: Replica, now_ms: int) -> None:
        self.replica = replica
        self.at_ms = now_ms
        self.cpu_s = taken(replica.pid)[0]
        self.reading: Reading | None = None
        self.read_ms = now_ms
        plan = replica.plan
        asked = {probe.path for _, probe in plan.probes() if probe.kind == HTTP}
        if plan.partitions is not None:
            asked.add(plan.partitions.path)
        # A probe of the root asks what everybody asks, and is not told from them.
        self.own_paths = tuple({plan.metrics, *asked} - {"/"})


class Meter:
    """Used by one thread alone."""

    def __init__(self) -> None:
        self._looks: dict[LeaseId, Look] = {}

    def begin(self, replica: Replica, now_ms: int) -> None:
        self._looks[replica.lease_id] = Look(replica, now_ms)

    def end(self, lease_id: LeaseId) -> None:
        self._looks.pop(lease_id, None)

    async def sample(
        self, lease_id: LeaseId, clock_ms: Callable[[], int], *, is_scraped: bool
    ) -> Sample | None:
        """What it took since it was looked at last; None where it is gone."""
        look = self._looks.get(lease_id)
        if look is None:
            return None
        cpu_s, memory_bytes = taken(look.replica.pid)
        now_ms = clock_ms()
        spent_s = max(0.0, cpu_s - look.cpu_s)
        cpu_milli = round(1_000_000 * spent_s / max(1, now_ms - look.at_ms))
        look.cpu_s, look.at_ms = cpu_s, now_ms
        if not is_scraped or not look.replica.plan.metrics:
            return Sample(lease_id, cpu_milli, memory_bytes)
        try:
            found = await self._scrape(look, clock_ms)
        except (Unwell, ValueError, ArithmeticError) as error:
            look.reading = None
            return unread(lease_id, cpu_milli, memory_bytes, str(error))
        rate, latency_ms = found.requests_per_s, found.latency_ms
        sample = Sample(lease_id, cpu_milli, memory_bytes, rate, latency_ms)
        if servicing_problem((), (sample,)):
            # Nobody listens to a worker that says what cannot be, whoever said it first.
            return unread(lease_id, cpu_milli, memory_bytes, "they are no numbers of requests")
        return sample

    async def _scrape(self, look: Look, clock_ms: Callable[[], int]) -> Traffic:
        replica, plan = look.replica, look.replica.plan
        port = replica.port_of(plan.metrics_port)
        content = await read_http(replica.host, port, plan.metrics, SCRAPE_MS)
        reading = read(content.decode("utf-8", "replace"), look.own_paths)
        before, look.reading = look.reading, reading
        since_ms, look.read_ms = look.read_ms, clock_ms()
        if before is None:
            return Traffic()
        return traffic(before, look.reading, look.read_ms - since_ms)


def unread(lease_id: LeaseId, cpu_milli: int, memory_bytes: int, why: str) -> Sample:
    """A replica whose own metrics say nothing, and why."""
    problem = f"metrics: {why}"[:PROBLEM_CHARACTERS_MAX]
    return Sample(lease_id, cpu_milli, memory_bytes, problem=problem)


def taken(pid: int) -> tuple[float, int]:
    """Seconds of processor and bytes of memory that a process and its descendants have taken.

    The time of those that ended is in that of the parents who waited for them, so the sum goes on.
    """
    cpu_s, memory_bytes = 0.0, 0
    for each in tree(pid):
        try:
            process = psutil.Process(each)
            with process.oneshot():
                cpu_s += sum(process.cpu_times()[:4])
                memory_bytes += process.memory_info().rss
        except (psutil.Error, OSError, ValueError):
            # It ended while it was looked at.
            continue
    return cpu_s, memory_bytes


def tree(pid: int) -> Iterator[int]:
    """A process and its descendants."""
    if not Path("/proc/self/task").is_dir():
        yield pid
        try:
            yield from (child.pid for child in psutil.Process(pid).children(recursive=True))
        except psutil.Error:
            return
        return
    waiting, seen = [pid], {pid}
    while waiting:
        each = waiting.pop()
        yield each
        fresh = [child for child in _children(each) if child not in seen]
        seen.update(fresh)
        waiting += fresh


def _children(pid: int) -> Iterator[int]:
    """Those of every thread: whoever started one is its parent."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        try:
            found = Path(f"/proc/{pid}/task/{thread}/children").read_text()
        except OSError:
            continue
        yield from map(int, found.split())

"""An array is one record and a byte a task, however many there are.

The time is that of the call a user makes. The memory is what the allocator gives to a coordinator
without disk, and to the handle a program holds: both are counted, since zeros that nobody has
touched yet do not show in what the operating system holds.
"""

import gc
import sys
import time
import tracemalloc
from pathlib import Path

import holdfast
from holdfast.cli.benchmarks.row import Figure, Row, Values, at_most, main
from holdfast.cli.benchmarks.stepped import SPEC, Stepped
from holdfast.cli.benchmarks.work import noop
from holdfast.client.feed import JobFeed
from holdfast.core.commands import SubmitJob
from holdfast.core.ids import JobId


def run(size: int, folder: Path) -> Values:
    with holdfast.open(folder / "holdfast", executor="threads", workers=1) as hf:
        began = time.perf_counter()
        job = hf.array(noop, size)
        submit_ms = 1_000 * (time.perf_counter() - began)
        job.cancel()
    return {"submit": submit_ms, **_bytes_each(size)}


def _bytes_each(size: int) -> dict[str, float]:
    stepped, job_id = Stepped(), JobId("array")
    # The first of its kind also pays for what is remembered once.
    stepped.execute(SubmitJob(job_id=JobId("first"), spec=SPEC, count=1))
    stepped.settle()
    tracemalloc.start()
    try:
        before = _allocated()
        stepped.execute(SubmitJob(job_id=job_id, spec=SPEC, count=size))
        stepped.settle()
        waiting = _allocated() - before
        feed = JobFeed(job_id)
        stepped.coordinator.watchers.add(feed)
        stepped.settle()
        watched = _allocated() - before
    finally:
        tracemalloc.stop()
    return {"waiting": waiting / size, "watched": watched / size}


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


ROW = Row(
    name="arrays",
    what="an array of 1,000,000 tasks",
    figures=(
        Figure("submit", "the call to array(), durable", "ms", at_most(50)),
        Figure("waiting", "a waiting task in the coordinator", "bytes", at_most(2)),
        Figure("watched", "the same with the handle the program holds", "bytes"),
    ),
    size=1_000_000,
    quick_size=100_000,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))

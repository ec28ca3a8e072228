"""Whether a task costs more when many others wait.

The queue is kept at its length while tasks flow through it: as many come in as are done. The cost
is that of the coordinator alone, without disk: submit, place, lease, commit.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.cli.benchmarks.row import Figure, Row, Values, at_most, main
from holdfast.cli.benchmarks.stepped import Stepped
from holdfast.core.ids import JobId

SHORT_QUEUE = 1_000
FLOW_MAX = 20_000
FLOW_S_MAX = 10.0
"""A queue that has become very slow is seen to be so after this long."""

MAP = JobId("map")

Fill = Callable[[Stepped, int, int], None]
"""Brings in tasks, from that number on, that many."""


def run(size: int, folder: Path) -> Values:
    short = min(SHORT_QUEUE, max(1, size // 10))
    flow = min(FLOW_MAX, size)
    return {
        "items": _cost(_fill_map, size, flow) / _cost(_fill_map, short, flow),
        "singles": _cost(_fill_singles, size, flow) / _cost(_fill_singles, short, flow),
    }


def _cost(fill: Fill, waiting: int, flow: int) -> float:
    """Seconds a task, with this many waiting."""
    stepped = Stepped()
    stepped.open_map(MAP)
    fill(stepped, 0, waiting)
    brought = waiting
    # The first exchanges learn how fast the function is; they are no steady state.
    for _ in range(3):
        brought += _refill(stepped, fill, brought)
    began, first = time.perf_counter(), brought
    while brought - first < flow and time.perf_counter() - began < FLOW_S_MAX:
        brought += _refill(stepped, fill, brought)
    return (time.perf_counter() - began) / (brought - first)


def _refill(stepped: Stepped, fill: Fill, brought: int) -> int:
    done = stepped.work()
    fill(stepped, brought, done)
    return done


def _fill_map(stepped: Stepped, first: int, count: int) -> None:
    stepped.feed(MAP, first, count)


def _fill_singles(stepped: Stepped, first: int, count: int) -> None:
    stepped.submit_singles(first, count)


ROW = Row(
    name="growth",
    what="cost of a task with 1,000,000 waiting, over that with 1,000 waiting",
    figures=(
        Figure("items", "items of one map", "×", at_most(1.3)),
        Figure("singles", "jobs of one task", "×", at_most(1.3)),
    ),
    size=1_000_000,
    quick_size=100_000,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))

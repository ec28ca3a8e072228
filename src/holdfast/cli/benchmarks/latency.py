"""How long one call takes when nothing else is going on: submit, run, read the result."""

import sys
import time
from pathlib import Path
from statistics import quantiles

import holdfast
from holdfast.cli.benchmarks.row import Figure, Row, Values, main
from holdfast.cli.benchmarks.work import noop

WARM_CALLS = 20


def run(size: int, folder: Path) -> Values:
    waits: list[float] = []
    with holdfast.open(folder / "holdfast", executor="threads") as hf:
        # A program that waits for single calls has been running for a while.
        for number in range(WARM_CALLS):
            hf.submit(noop, number).result()
        for number in range(size):
            began = time.perf_counter()
            hf.submit(noop, number).result()
            waits.append(1_000 * (time.perf_counter() - began))
    cuts = quantiles(waits, n=100, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98]}


ROW = Row(
    name="latency",
    what="submit to result, one at a time, embedded, threads executor",
    figures=(
        Figure("p50", "half of the calls are back after", "ms"),
        Figure("p99", "99 of 100 calls are back after", "ms"),
    ),
    size=2_000,
    quick_size=200,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))

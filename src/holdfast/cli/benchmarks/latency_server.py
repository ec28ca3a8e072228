"""How long a task waits to begin when nothing else is going on: a server and a worker.

The task says when it began. Program and task are on one machine, and so read the same clock.
"""

import sys
import time
from pathlib import Path
from statistics import quantiles

import holdfast
from holdfast.cli.benchmarks.cluster import serving, working
from holdfast.cli.benchmarks.row import Figure, Row, Values, main
from holdfast.cli.benchmarks.work import instant

WARM_CALLS = 20


def run(size: int, folder: Path) -> Values:
    starts: list[float] = []
    returns: list[float] = []
    with (
        serving(folder) as cluster,
        working(cluster, folder),
        holdfast.connect(cluster.url, token=cluster.token) as hf,
    ):
        for number in range(WARM_CALLS + size):
            began = time.monotonic_ns()
            started = hf.submit(instant).result()
            back = time.monotonic_ns()
            if number >= WARM_CALLS:
                starts.append((started - began) / 1e6)
                returns.append((back - began) / 1e6)
    starting = quantiles(starts, n=100, method="inclusive")
    returning = quantiles(returns, n=100, method="inclusive")
    return {
        "start_p50": starting[49],
        "start_p99": starting[98],
        "result_p50": returning[49],
        "result_p99": returning[98],
    }


ROW = Row(
    name="latency-server",
    what="one task at a time, a server and one worker on loopback, durable",
    figures=(
        Figure("start_p50", "half of the tasks have begun after", "ms"),
        Figure("start_p99", "99 of 100 tasks have begun after", "ms"),
        Figure("result_p50", "half of the results are back after", "ms"),
        Figure("result_p99", "99 of 100 results are back after", "ms"),
    ),
    size=1_000,
    quick_size=100,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))

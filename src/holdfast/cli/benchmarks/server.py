"""Whole lives of tasks over the network: one server, one worker, one program, on loopback.

Every step is durable before anyone hears of it. The program, the server, the worker and the
processes its tasks run in share the processors of one machine.
"""

import sys
import time
from pathlib import Path

import holdfast
from holdfast.cli.benchmarks.cluster import processor_s, serving, working
from holdfast.cli.benchmarks.row import Figure, Row, Values, at_least, main
from holdfast.cli.benchmarks.work import noop
from holdfast.core.errors import BrokenInvariant

WARM_TASKS = 1_000


def run(size: int, folder: Path) -> Values:
    with (
        serving(folder) as cluster,
        working(cluster, folder),
        holdfast.connect(cluster.url, token=cluster.token) as hf,
    ):
        # A server and its worker have been running for a while; the worker has its children.
        hf.map(noop, range(WARM_TASKS)).wait()

        spent = processor_s(cluster.server.pid)
        began = time.perf_counter()
        hf.map(noop, range(size)).wait()
        lives = size / (time.perf_counter() - began)
        spent = processor_s(cluster.server.pid) - spent

        began = time.perf_counter()
        total = sum(hf.map(noop, range(size)).results())
        with_results = size / (time.perf_counter() - began)
    if total != size * (size - 1) // 2:
        raise BrokenInvariant(f"the results add up to {total}")
    return {
        "lives": lives,
        "lives_with_results": with_results,
        "server_us": 1e6 * spent / size,
    }


ROW = Row(
    name="server",
    what="no-op tasks through map, a server and one worker on loopback, durable",
    figures=(
        Figure("lives", "from map() until the job has ended", "lives/s", at_least(25_000)),
        Figure("lives_with_results", "from map() until every result is read", "lives/s"),
        Figure("server_us", "processor time of the server for a life", "µs"),
    ),
    size=50_000,
    quick_size=5_000,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))

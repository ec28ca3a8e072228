"""Lives of tasks that each owe one effect: a line in a file, exactly once, on the disk.

A life is over when its line is there and that is recorded. First inside a program, then with a
server, whose delivery process writes the file.
"""

import sys
import time
from pathlib import Path

import holdfast
from holdfast.cli.benchmarks.cluster import environment, serving, working
from holdfast.cli.benchmarks.row import Figure, Row, Values, main
from holdfast.cli.benchmarks.work import owing
from holdfast.core.errors import BrokenInvariant

WARM_TASKS = 500


def run(size: int, folder: Path) -> Values:
    return {"embedded": _embedded(size, folder), "served": _served(size, folder)}


def _embedded(size: int, folder: Path) -> float:
    ledger = folder / "embedded.jsonl"
    sinks = {"ledger": holdfast.FileSink(str(ledger))}
    with holdfast.open(folder / "holdfast", executor="threads", sinks=sinks) as hf:
        began = time.perf_counter()
        hf.map(owing, range(size)).wait()
        lives = size / (time.perf_counter() - began)
        _check(ledger, size)
    return lives


def _served(size: int, folder: Path) -> float:
    ledger = folder / "served.jsonl"
    settings = Path(environment(folder)["XDG_CONFIG_HOME"]) / "holdfast" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[sinks.ledger]\nkind = "file"\npath = "{ledger}"\n', encoding="utf-8")
    with (
        serving(folder) as cluster,
        working(cluster, folder),
        holdfast.connect(cluster.url, token=cluster.token) as hf,
    ):
        # The worker has its children by then, and the server its delivery process.
        hf.map(owing, range(WARM_TASKS)).wait()
        began = time.perf_counter()
        hf.map(owing, range(size)).wait()
        lives = size / (time.perf_counter() - began)
        _check(ledger, WARM_TASKS + size)
    return lives


def _check(ledger: Path, count: int) -> None:
    with ledger.open("rb") as lines:
        found = sum(1 for _ in lines)
    if found != count:
        raise BrokenInvariant(f"the file has {found} lines of {count}")


ROW = Row(
    name="effects",
    what="tasks that owe one line in a file each, delivered and durable",
    figures=(
        Figure("embedded", "inside a program, until every line is confirmed", "lives/s"),
        Figure("served", "with a server, until every line is confirmed", "lives/s"),
    ),
    size=20_000,
    quick_size=2_000,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))

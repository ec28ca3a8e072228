"""Whole lives of tasks in one program: submitted, leased, run, committed, each step durable.

Beside it, on the same file system and in the same run, a raw queue on SQLite.
"""

import sys
import time
from pathlib import Path

import holdfast
from holdfast.cli.benchmarks.row import Figure, Row, Values, at_least, main
from holdfast.cli.benchmarks.sqlite import lives_per_second
from holdfast.cli.benchmarks.work import noop
from holdfast.core.errors import BrokenInvariant


def run(size: int, folder: Path) -> Values:
    with holdfast.open(folder / "holdfast", executor="threads") as hf:
        began = time.perf_counter()
        hf.map(noop, range(size)).wait()
        lives = size / (time.perf_counter() - began)

        began = time.perf_counter()
        total = sum(hf.map(noop, range(size)).results())
        with_results = size / (time.perf_counter() - began)
    if total != size * (size - 1) // 2:
        raise BrokenInvariant(f"the results add up to {total}")
    journal_wal = lives_per_second(folder / "wal.sqlite", size, "WAL")
    journal_delete = lives_per_second(folder / "delete.sqlite", size, "DELETE")
    return {
        "lives": lives,
        "lives_with_results": with_results,
        "sqlite_wal": journal_wal,
        "sqlite_delete": journal_delete,
        "ratio_to_sqlite": lives / journal_wal,
    }


ROW = Row(
    name="embedded",
    what="no-op tasks through map, threads executor, durable",
    figures=(
        Figure("lives", "from map() until the job has ended", "lives/s", at_least(60_000)),
        Figure("lives_with_results", "from map() until every result is read", "lives/s"),
        Figure("sqlite_wal", "raw SQLite queue, FULL, journal WAL", "lives/s"),
        Figure("sqlite_delete", "raw SQLite queue, FULL, journal DELETE", "lives/s"),
        Figure("ratio_to_sqlite", "lives over those of SQLite, journal WAL", "×", at_least(1)),
    ),
    size=100_000,
    quick_size=20_000,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))

"""What finished tasks of a map cost in memory: their results are in the log, not here."""

import sys
from pathlib import Path

from holdfast.cli.benchmarks.row import Figure, Row, Values, at_most, main
from holdfast.cli.benchmarks.stepped import CHUNK_ITEMS, Stepped, resident_bytes
from holdfast.core.ids import JobId

AHEAD_CHUNKS = 100
"""How far the items run ahead of the workers, as they do when a map is fed lazily."""


def run(size: int, folder: Path) -> Values:
    stepped = Stepped()
    for name in ("first", "map"):
        stepped.open_map(JobId(name))
    _run_through(stepped, JobId("first"), CHUNK_ITEMS)
    before = resident_bytes()
    _run_through(stepped, JobId("map"), size)
    return {"finished": (resident_bytes() - before) / 1e6}


def _run_through(stepped: Stepped, job_id: JobId, size: int) -> None:
    fed = finished = 0
    while finished < size:
        while fed < size and fed - finished < AHEAD_CHUNKS * CHUNK_ITEMS:
            more = min(CHUNK_ITEMS, size - fed)
            stepped.feed(job_id, fed, more)
            fed += more
        finished += stepped.work()


ROW = Row(
    name="finished",
    what="a map of 1,000,000 items, finished",
    figures=(Figure("finished", "all of it in the coordinator", "MB", at_most(64)),),
    size=1_000_000,
    quick_size=50_000,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))

"""How long a program is away when it starts again with a million live tasks.

Most of them are in a snapshot, one in a hundred came after it. The clock runs from the start of
the new process until it has taken the log over durably and could answer. The files are still in
the page cache, as after a crash of the program; after one of the machine add the reading of them.
"""

import subprocess
import sys
import time
from pathlib import Path

from holdfast.cli.benchmarks.row import Figure, Row, RowFailed, Values, at_most, main
from holdfast.cli.benchmarks.stepped import CHUNK_ITEMS, SPEC, payload
from holdfast.cli.benchmarks.written import Written
from holdfast.coordinator.snapshotting import Course, make_snapshot
from holdfast.core import commands as c
from holdfast.core.ids import JobId

TAIL_SHARE = 100
MAP = JobId("map")
READY = b"ready\n"
OPEN = "import sys, holdfast.cli.benchmarks.restart as r; r.open_and_tell(sys.argv)"


def run(size: int, folder: Path) -> Values:
    tail = max(1, size // TAIL_SHARE)
    items, singles = folder / "items", folder / "singles"
    _write_map(items, size - tail, tail)
    _write_singles(singles, size - tail, tail)
    return {"items": _seconds_until_ready(items), "singles": _seconds_until_ready(singles)}


def open_and_tell(arguments: list[str]) -> None:
    """What the restarted process does: take the log over, then say that it could answer."""
    written = Written(Path(arguments[1]))
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    written.close()


def _write_map(folder: Path, before: int, after: int) -> None:
    written = Written(folder)
    # A key, since an open map without one is sealed by the next opening.
    submit = c.SubmitJob(job_id=MAP, spec=SPEC, key="bench", digest=b"bench", sealed=False)
    written.execute(submit)
    _feed(written, 0, before)
    _snapshot(folder, written)
    _feed(written, before, after)
    written.close()


def _feed(written: Written, first: int, count: int) -> None:
    for start in range(first, first + count, CHUNK_ITEMS):
        stop = min(start + CHUNK_ITEMS, first + count)
        items = tuple([payload(index) for index in range(start, stop)])
        written.execute(c.AddTasks(job_id=MAP, first=start, items=items))
        written.write()


def _write_singles(folder: Path, before: int, after: int) -> None:
    written = Written(folder)
    _submit(written, 0, before)
    _snapshot(folder, written)
    _submit(written, before, after)
    written.close()


def _submit(written: Written, first: int, count: int) -> None:
    for number in range(first, first + count):
        job_id = JobId(f"j{number:09d}")
        written.execute(c.SubmitJob(job_id=job_id, spec=SPEC, items=(payload(number),)))
        if number % 100 == 99:
            written.write()
    written.write()


def _snapshot(folder: Path, written: Written) -> None:
    """Everything so far, as the coordinator's second process would write it."""
    made = make_snapshot(Course(str(folder), written.log.durable, None))
    install = c.InstallSnapshot(at_position=made.position, state_hash=made.state_hash)
    written.execute(install)
    written.write()


def _seconds_until_ready(folder: Path) -> float:
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", OPEN, str(folder)], stdout=subprocess.PIPE
    ) as child:
        said = child.stdout.readline() if child.stdout is not None else b""
        spent = time.perf_counter() - began
    if said != READY or child.returncode != 0:
        raise RowFailed(f"the restarted process ended with {child.returncode}")
    return spent


ROW = Row(
    name="restart",
    what="a process that starts again with 1,000,000 live tasks, snapshot and tail",
    figures=(
        Figure("items", "ready, with items of one map", "s", at_most(3)),
        Figure("singles", "ready, with jobs of one task", "s", at_most(3)),
    ),
    size=1_000_000,
    quick_size=50_000,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))

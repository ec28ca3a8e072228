"""How fast a log without a snapshot is read, checked, decoded and applied again.

Changes are counted, since one event names many tasks: a task added, leased, started or completed is
one change each. Two logs of the same lives are read. In the first, as workers make it, a record
names a hundred tasks. In the second every record is about one task of a job of its own, and a
frame holds a hundred changes: submitted, leased, started and completed, of 25 tasks.
"""

import sys
import time
from pathlib import Path

from holdfast.cli.benchmarks.row import Figure, Row, Values, at_least, main
from holdfast.cli.benchmarks.stepped import RESULT, SPEC, WORKER, payload
from holdfast.cli.benchmarks.written import Written
from holdfast.coordinator.recovery import replay_frames
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.reports import Done
from holdfast.core.state import State

RUN = 100
LIVES_A_FRAME = 25


def run(size: int, folder: Path) -> Values:
    batched, single = Written(folder / "batched"), Written(folder / "single")
    try:
        changes = _write_batched(batched, size)
        events = _write_single(single, size)
        return {
            "changes": changes / _seconds_to_replay(batched),
            "single_events": events / _seconds_to_replay(single),
        }
    finally:
        batched.close()
        single.close()


def _write_batched(written: Written, size: int) -> int:
    """A map whose tasks are leased and completed a hundred at a time, each step one frame."""
    job_id, changes = JobId("map"), 0
    written.execute(c.SubmitJob(job_id=job_id, spec=SPEC, sealed=False))
    for start in range(0, size, RUN):
        indices = range(start, min(start + RUN, size))
        items = tuple([payload(index) for index in indices])
        written.execute(c.AddTasks(job_id=job_id, first=start, items=items))
        written.write()
        granted = _lease(written, job_id, tuple([Index(index) for index in indices]))
        written.write()
        _complete(written, granted)
        written.write()
        # Added, leased, started, completed.
        changes += 4 * len(indices)
    return changes


def _write_single(written: Written, size: int) -> int:
    for start in range(0, size, LIVES_A_FRAME):
        for number in range(start, min(start + LIVES_A_FRAME, size)):
            job_id = JobId(f"j{number:09d}")
            written.execute(c.SubmitJob(job_id=job_id, spec=SPEC, items=(payload(number),)))
            _complete(written, _lease(written, job_id, (Index(0),)))
        written.write()
    return 4 * size


def _lease(written: Written, job_id: JobId, indices: tuple[Index, ...]) -> e.LeasesGranted:
    command = c.GrantLeases(
        job_id=job_id, worker=WORKER, incarnation=1, slot=0, indices=indices, term_ms=0
    )
    granted = written.execute(command)
    if not isinstance(granted, e.LeasesGranted):
        raise BrokenInvariant(f"tasks of {job_id} wait and were not leased")
    return granted


def _complete(written: Written, granted: e.LeasesGranted) -> None:
    done = tuple(
        [
            Done(granted.job_id, index, LeaseId(granted.first_lease + place), 0, RESULT)
            for place, index in enumerate(granted.indices)
        ]
    )
    written.execute(c.CommitTasks(worker=WORKER, incarnation=1, done=done))


def _seconds_to_replay(written: Written) -> float:
    began = time.perf_counter()
    state = replay_frames(State(), written.log)
    spent = time.perf_counter() - began
    if state.position != written.state.position:
        raise BrokenInvariant(f"replay ended at {state.position}")
    return spent


ROW = Row(
    name="replay",
    what="a log read again from its beginning, lives of 100,000 tasks",
    figures=(
        Figure("changes", "a hundred tasks a record", "changes/s", at_least(700_000)),
        Figure("single_events", "a task a record, a hundred changes a frame", "changes/s"),
    ),
    size=100_000,
    quick_size=20_000,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))

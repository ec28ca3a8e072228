"""What is in quarantine, and why: memory says which tasks, the log says how they came there.

A finished task is a cell and a position. Whoever looks walks the cells in slices, and reads the
records at those positions afterwards, off the loop; what was read is remembered, because the record
of an end never changes.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from holdfast.coordinator.inspect import HistoryGone, Told
from holdfast.coordinator.library import Library
from holdfast.coordinator.views import target_view
from holdfast.core import events as e
from holdfast.core.fingerprints import UNTOLD, Fingerprint, of_decision, of_end
from holdfast.core.ids import Index, JobId, Position
from holdfast.core.job import Job
from holdfast.core.task import TaskState
from holdfast.wire.quarantine import WantedCases

REMEMBERED: Final = 200_000
"""So many ends are remembered; the oldest of them go first."""
ERROR_MOST: Final = 200
"""So much of an error is told in a list."""

SLICE_JOBS: Final = 5_000
"""So many jobs are looked at without letting others have their turn."""

CLOSE: Final = 8
"""Records so near to each other are read in one go."""

Key = tuple[int, str, int]
"""Where a task ended, its job and its index."""
Cursor = tuple[int, int]
"""The position of a job, and the index in it, where the next look begins. Newest jobs first."""


class Patient(Struct, frozen=True, gc=False):
    """A task in quarantine, as memory knows it."""

    job_id: JobId
    index: Index
    end: Position
    attempts: int
    name: str
    function: str


class Case(Struct, frozen=True, gc=False):
    """How a task came there, as the log tells. `since` is of the wall clock."""

    mark: Fingerprint
    since: int
    error: str
    worker: str


LOST: Final = Case(UNTOLD, 0, "", "")


def patients_of(job: Job, first: int = 0) -> Iterator[Patient]:
    """The tasks of a job in quarantine, from an index on."""
    if not job.quarantined or job.ends is None or job.attempts is None:
        return
    index = job.states.find(TaskState.QUARANTINED, first)
    while index >= 0:
        yield Patient(
            job.job_id,
            Index(index),
            Position(job.ends[index]),
            job.attempts[index],
            job.spec.name,
            target_view(job.spec.target),
        )
        index = job.states.find(TaskState.QUARANTINED, index + 1)


def patients_after(
    jobs: Iterable[tuple[int, Job]], wanted: WantedCases, cursor: Cursor | None, most: int
) -> tuple[list[Patient], Cursor | None]:
    """Some tasks in quarantine from a place on, and the next place; None at the end. `jobs` come
    with their positions, the newest first."""
    found: list[Patient] = []
    looks = 0
    for position, job in jobs:
        if cursor is not None and position > cursor[0]:
            continue
        first = cursor[1] if cursor is not None and position == cursor[0] else 0
        if looks >= SLICE_JOBS:
            return found, (position, first)
        looks += 1
        if not job.quarantined or not wanted.takes_job(job):
            continue
        for patient in patients_of(job, first):
            if len(found) >= most:
                return found, (position, int(patient.index))
            found.append(patient)
    return found, None


class CaseBook:
    """What the log says of ends, remembered. May be asked by any thread."""

    def __init__(self) -> None:
        self._known: dict[Key, Case] = {}
        self._marks: dict[str, Fingerprint] = {}

    def cases(self, library: Library, patients: Sequence[Patient]) -> list[Case]:
        """That of each. What is not known is read, which waits for the disk."""
        keys = [(int(one.end), one.job_id, int(one.index)) for one in patients]
        missing = sorted({key[0] for key in keys if key not in self._known})
        found: dict[Key, Case] = {}
        for told in _read(library, missing):
            found.update(self._cases_in(told))
        cases = [found.get(key) or self._known.get(key) or LOST for key in keys]
        if len(self._known) + len(found) > REMEMBERED:
            for key in list(self._known)[: REMEMBERED // 2]:
                self._known.pop(key, None)
        self._known.update(found)
        return cases

    def _cases_in(self, told: Told) -> Iterator[tuple[Key, Case]]:
        """Every task that a record put into quarantine."""
        since, position = told.wall(told.record.at), int(told.position)
        for event in told.record.events:
            if isinstance(event, e.TasksQuarantined):
                for end in event.ends:
                    mark, worker = self._one(of_end(end)), sys.intern(end.worker)
                    case = Case(mark, since, _first_line(end.error), worker)
                    yield (position, event.job_id, int(end.index)), case
            elif isinstance(event, e.TasksSetAside):
                case = Case(self._one(of_decision(event)), since, event.note[:ERROR_MOST], "")
                for index in _named(event):
                    yield (position, event.job_id, index), case

    def _one(self, mark: Fingerprint) -> Fingerprint:
        """The one that is kept for all that failed in this way."""
        if len(self._marks) > REMEMBERED:
            self._marks.clear()
        return self._marks.setdefault(mark.mark, mark)


def _read(library: Library, positions: Sequence[int]) -> Iterator[Told]:
    """The records at these positions, as far as they are kept. Where they lie close together the
    log is read through, which is a good deal faster."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and position - runs[-1][-1] <= CLOSE:
            runs[-1].append(position)
        else:
            runs.append([position])
    for run in runs:
        try:
            if len(run) == 1:
                yield library.told(run[0])
                continue
            wanted = frozenset(run)
            yield from (t for t in library.history(run[0], run[-1]) if t.position in wanted)
        except (HistoryGone, FileNotFoundError):
            yield from _one_by_one(library, run)


def _one_by_one(library: Library, positions: Sequence[int]) -> Iterator[Told]:
    """What outlived its segment is read where it was kept."""
    for position in positions:
        try:
            yield library.told(position)
        except HistoryGone:
            continue


def _named(event: e.TasksSetAside) -> Iterable[int]:
    for span in event.spans:
        yield from range(span.first, span.last + 1)
    for end in event.ends:
        yield int(end.index)


def _first_line(error: str) -> str:
    lines = error.strip().splitlines()
    # Many tasks fail with the same words.
    return sys.intern(lines[0][:ERROR_MOST]) if lines else ""

"""What is in quarantine, and why: memory says which tasks, the log says how they came there.

A finished task is a cell and a position. Whoever looks walks the cells in slices, and reads the
records at those positions afterwards, off the loop; what was read is remembered, because the record
of an end never changes.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from holdfast.coordinator.inspect import HistoryGone, Told
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

Read = Callable[[int], Told]
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
        self._known: dict[tuple[int, str, int], Case] = {}

    def cases(self, read: Read, patients: Sequence[Patient]) -> list[Case]:
        """That of each. What is not known is read, which waits for the disk."""
        return [self._case(read, patient) for patient in patients]

    def _case(self, read: Read, patient: Patient) -> Case:
        key = (int(patient.end), patient.job_id, int(patient.index))
        known = self._known.get(key)
        if known is not None:
            return known
        try:
            told = read(patient.end)
        except HistoryGone:
            return Case(UNTOLD, 0, "", "")
        found = dict(_cases_in(told))
        if len(self._known) + len(found) > REMEMBERED:
            self._forget()
        self._known.update(found)
        return found.get(key, Case(UNTOLD, told.wall(told.record.at), "", ""))

    def _forget(self) -> None:
        for key in list(self._known)[: REMEMBERED // 2]:
            self._known.pop(key, None)


def _cases_in(told: Told) -> Iterator[tuple[tuple[int, str, int], Case]]:
    """Every task that a record put into quarantine."""
    since, position = told.wall(told.record.at), int(told.position)
    for event in told.record.events:
        if isinstance(event, e.TasksQuarantined):
            for end in event.ends:
                case = Case(of_end(end), since, _first_line(end.error), sys.intern(end.worker))
                yield (position, event.job_id, int(end.index)), case
        elif isinstance(event, e.TasksSetAside):
            case = Case(of_decision(event), since, event.note[:ERROR_MOST], "")
            for index in _named(event):
                yield (position, event.job_id, index), case


def _named(event: e.TasksSetAside) -> Iterable[int]:
    for span in event.spans:
        yield from range(span.first, span.last + 1)
    for end in event.ends:
        yield int(end.index)


def _first_line(error: str) -> str:
    lines = error.strip().splitlines()
    # Many tasks fail with the same words.
    return sys.intern(lines[0][:ERROR_MOST]) if lines else ""

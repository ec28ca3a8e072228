"""The quarantine of a folder, as it stood at a moment."""

from collections.abc import Callable, Iterator
from itertools import islice

from holdfast.cli.output import View
from holdfast.coordinator.history import task_detail
from holdfast.coordinator.inspect import Reading
from holdfast.coordinator.library import Library
from holdfast.coordinator.quarantine import CaseBook, patients_of
from holdfast.coordinator.quarantine_views import (
    Pair,
    case_view,
    counts_of,
    groups_of,
    wanted_pairs,
)
from holdfast.core.ids import Index, JobId
from holdfast.wire.quarantine import WantedCases


class FolderWard:
    """Those of a folder, as it stood at a moment. `now` is what ages end at."""

    def __init__(self, reading: Callable[[], Reading], now: Callable[[], int]) -> None:
        self._reading = reading
        self._now = now
        self._book = CaseBook()

    def cases(self, wanted: WantedCases, limit: int = 0) -> tuple[list[View], int | None]:
        found = self._pairs(wanted)
        shown = list(islice(found, limit)) if limit else list(found)
        return [case_view(*pair) for pair in shown], len(shown) + sum(1 for _ in found)

    def groups(self, wanted: WantedCases) -> list[View]:
        return groups_of(self._pairs(wanted))

    def counts(self, wanted: WantedCases) -> View:
        return counts_of(self._pairs(wanted), self._now())

    def case(self, job_id: str, index: int) -> View | None:
        reading = self._reading()
        job = reading.state.jobs[JobId(job_id)]
        patient = next(patients_of(job, index), None)
        if patient is None or patient.index != index:
            return None
        (case,) = self._book.cases(_library(reading), (patient,))
        detail = task_detail(reading, job, Index(index))
        return {**detail, **case_view(patient, case), "attempts": detail["attempts"]}

    def _pairs(self, wanted: WantedCases) -> Iterator[Pair]:
        reading = self._reading()
        for job in sorted(reading.state.jobs.values(), key=lambda job: -job.position):
            if not wanted.takes_job(job):
                continue
            patients = list(patients_of(job))
            cases = self._book.cases(_library(reading), patients)
            pairs = zip(patients, cases, strict=True)
            yield from wanted_pairs(pairs, wanted, self._now())


def _library(reading: Reading) -> Library:
    return Library(reading.told, reading.records)

"""Where commands that look at the quarantine get what they show: of a folder, or of a server."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Protocol

from holdfast.cli.asking import Asker
from holdfast.cli.output import View
from holdfast.coordinator.history import task_detail
from holdfast.coordinator.inspect import Reading
from holdfast.coordinator.quarantine import CaseBook, patients_of
from holdfast.coordinator.quarantine_views import (
    Pair,
    case_view,
    counts_of,
    groups_of,
    wanted_pairs,
)
from holdfast.core.ids import Index, JobId
from holdfast.wire.quarantine import WantedCases, joined_counts, joined_groups, query_of


class Ward(Protocol):
    """The tasks in quarantine."""

    def cases(self, wanted: WantedCases, limit: int = 0) -> tuple[list[View], int | None]:
        """Some of them, those of the newest jobs first, and how many there are where that is
        known. `limit` zero is none."""
        ...

    def groups(self, wanted: WantedCases) -> list[View]:
        """The same failures counted together, the largest group first."""
        ...

    def counts(self, wanted: WantedCases) -> View:
        """How many there are, by everything people ask for."""
        ...

    def case(self, job_id: str, index: int) -> View | None:
        """One of them with its attempts; None where it is not in quarantine."""
        ...


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
        (case,) = self._book.cases(reading.told, (patient,))
        detail = task_detail(reading, job, Index(index))
        return {**detail, **case_view(patient, case), "attempts": detail["attempts"]}

    def _pairs(self, wanted: WantedCases) -> Iterator[Pair]:
        reading = self._reading()
        for job in sorted(reading.state.jobs.values(), key=lambda job: -job.position):
            if not wanted.takes_job(job):
                continue
            patients = list(patients_of(job))
            cases = self._book.cases(reading.told, patients)
            pairs = zip(patients, cases, strict=True)
            yield from wanted_pairs(pairs, wanted, self._now())


class ServerWard:
    """Those of a server."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def cases(self, wanted: WantedCases, limit: int = 0) -> tuple[list[View], int | None]:
        found: list[View] = []
        for told in self._parts(wanted, limit=min(limit + 1, 1_000) if limit else 1_000):
            found += told["tasks"]
            if limit and len(found) > limit:
                return found[:limit], None
        return found, len(found)

    def groups(self, wanted: WantedCases) -> list[View]:
        return joined_groups(told["groups"] for told in self._parts(wanted, "groups"))

    def counts(self, wanted: WantedCases) -> View:
        parts = [*self._parts(wanted, "stats")]
        for part in parts:
            part.pop("next"), part.pop("schema")
        return joined_counts(parts)

    def case(self, job_id: str, index: int) -> View | None:
        return self._asker.get("quarantine", job_id, index)

    def _parts(self, wanted: WantedCases, *path: str, **query: Any) -> Iterator[View]:
        cursor: str | None = None
        while True:
            told = self._asker.get("quarantine", *path, cursor=cursor, **query_of(wanted), **query)
            cursor = told["next"]
            yield told
            if cursor is None:
                return

"""Looking into a folder: what its log says now, or said at a moment of the past."""

import time
from collections.abc import Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

from holdfast.cli.audit_folders import FolderAudit
from holdfast.cli.errors import NOT_FOUND, USAGE, Trouble
from holdfast.cli.folder_runtimes import FolderRuntimes
from holdfast.cli.folder_shelves import FolderShelf
from holdfast.cli.folder_wards import FolderWard
from holdfast.cli.output import View, note, typed
from holdfast.cli.shelves import Shelf
from holdfast.cli.sources import (
    LAST,
    Found,
    ambiguous,
    no_effect,
    no_operation,
    no_schedule,
    no_worker,
)
from holdfast.coordinator.census import Census
from holdfast.coordinator.circuits import circuit_views
from holdfast.coordinator.crews import NotedCrew
from holdfast.coordinator.crewviews import (
    held_by,
    lease_view,
    queue_views,
    token_view,
    worker_views,
)
from holdfast.coordinator.effects import (
    chosen_views,
    effect_detail,
    effect_view,
    owed_by_task,
)
from holdfast.coordinator.explaining import job_explained, task_explained
from holdfast.coordinator.fleetnotes import fleet_at
from holdfast.coordinator.history import task_detail
from holdfast.coordinator.inspect import (
    Folder,
    Moment,
    Reading,
    Told,
    Unreachable,
    look_at,
    open_folder,
    undisturbed,
)
from holdfast.coordinator.limits import limit_views
from holdfast.coordinator.operation_views import looked_at, operation_view
from holdfast.coordinator.pacenotes import paced_at
from holdfast.coordinator.refusals import refusals_in
from holdfast.coordinator.schedules import coming, schedule_detail, schedule_view
from holdfast.coordinator.stall_views import noted_stalls, stall_view
from holdfast.coordinator.surroundings import Surroundings, why_of
from holdfast.coordinator.trail import trail_of
from holdfast.coordinator.views import job_detail, job_view, rfc3339, task_view
from holdfast.core.events import JobsForgotten
from holdfast.core.ids import Index, Instant, JobId
from holdfast.core.job import Job, job_state, state_of
from holdfast.core.owed import DebtName
from holdfast.core.schedule import Schedule
from holdfast.core.transactions import to_json, transaction_of
from holdfast.wire.wanted import Wanted, WantedEffects

EVER_AFTER: Final = Instant(1 << 62)
"""After everything that was ever noted."""


class FromFolder:
    """A folder as it stood at one moment. It is read when the first question comes."""

    def __init__(self, path: Path, at: Moment | None = None) -> None:
        self.path = path
        self._at = at
        self._opened: Reading | None = None
        self._former: dict[str, Reading] = {}

    @property
    def place(self) -> str:
        return f"in {self.path}"

    @property
    def options(self) -> str:
        return f" --data {typed(self.path)}"

    @property
    def reading(self) -> Reading:
        if self._opened is None:
            self._opened = open_folder(self.path, self._at)
        return self._opened

    def now(self) -> int:
        reading = self.reading
        if reading.state.position < reading.folder.last:
            return reading.wall(reading.state.time)
        return time.time_ns() // 1_000_000

    def refresh(self) -> None:
        self._opened = None
        self._former.clear()

    def jobs(self, wanted: Wanted, limit: int = 0) -> Found:
        found = [job for job in reversed(self.reading.state.jobs.values()) if wanted.takes(job)]
        shown = found[:limit] if limit else found
        around = cache(lambda: self._surroundings(self.reading))
        views = [
            {**job_view(job, self.reading.wall), "why": why_of(job, lambda job: around().key(job))}
            for job in shown
        ]
        return Found(views, len(found))

    def why_empty(self) -> str:
        reading = self.reading
        everything = f"`holdfast job list --data {typed(reading.path)}`"
        if reading.state.jobs:
            return f"no such jobs in {reading.path}; {everything} has all"
        if reading.state.position < reading.folder.last:
            then = f"at position {reading.state.position}"
            return f"no jobs in {reading.path} yet, {then}; {everything} shows what came later"
        return f"no jobs in {reading.path} yet; `holdfast demo --keep` makes some"

    def job(self, text: str) -> View:
        reading = recall(self.reading, text)
        found = find_job(reading, text)
        self._former[found.job_id] = reading
        return job_detail(found, reading.wall)

    def await_end(self, job: View, wait_s: float) -> View:
        """What is read does not change."""
        return job

    def shelf(self, *, follows: bool) -> Shelf:
        if follows:
            raise Trouble("nothing comes into a folder that is only read: leave out -f.", USAGE)
        return FolderShelf(self.path)

    def tasks(
        self, job: View, indices: Sequence[int], states: frozenset[str], limit: int = 0
    ) -> Found:
        reading, known = self._known(job)
        found = indices
        if states:
            found = [index for index in indices if state_of(known, Index(index)).name in states]
        shown = found[:limit] if limit else found
        views = [task_view(known, Index(index), reading.wall) for index in shown]
        return Found(views, len(found))

    def task(self, job: View, index: int) -> View:
        reading, known = self._known(job)
        stands, debts = self._surroundings(reading).standing, reading.state.debts
        owed = owed_by_task(debts, known, Index(index), stands, reading.wall)
        return {**task_detail(reading, known, Index(index)), "owed": owed}

    @property
    def ward(self) -> FolderWard:
        return FolderWard(lambda: self.reading, self.now)

    def effects(self, wanted: WantedEffects, limit: int = 0) -> Found:
        reading = self.reading
        ordered = sorted(reading.state.debts, key=lambda owing: owing.order)
        stands = self._surroundings(reading).standing
        found = chosen_views(ordered, wanted, stands, reading.wall)
        views = list(islice(found, limit)) if limit else list(found)
        return Found(views, len(views) + sum(1 for _ in found))

    def effect(self, name: DebtName) -> View:
        reading, known = self._known(self.job(name.job_id))
        state, view = reading.state, None
        owing = state.debts.find(name)
        if owing is not None:
            stands = self._surroundings(reading).standing(owing)
            view = effect_view(owing, stands, reading.wall)
        last = state.position
        found = None
        if name.index < known.count:
            found = effect_detail(reading, state.log_at, known, name, view, last)
        if found is None:
            raise no_effect(name, self)
        return found

    def history(self, job: View, index: int) -> View:
        reading, known = self._known(job)
        noted = list(refusals_in(self.path))
        return trail_of(reading, known, Index(index), reading.state.position, noted).view()

    def limits(self) -> list[View]:
        return limit_views(self.reading.state)

    def circuits(self) -> list[View]:
        return circuit_views(self.reading.state, self.reading.wall)

    def workers(self) -> list[View]:
        return worker_views(self.reading)

    def worker(self, name: str) -> View:
        found = next((view for view in self.workers() if view["name"] == name), None)
        if found is None:
            raise no_worker(name, self)
        held = held_by(self.reading.state, name)
        return {**found, "leases": [lease_view(task, self.reading.wall) for task in held]}

    def queues(self) -> list[View]:
        return queue_views(self.reading)

    def tokens(self) -> list[View]:
        return [token_view(each, self.reading.wall) for each in self.reading.state.tokens.values()]

    def explain_job(self, job: View, level: int = 1) -> View:
        reading, known = self._known(job)
        here = self._surroundings(reading).whole(known)
        state = job_state(known).value
        oldest, last = reading.folder.oldest, reading.state.position
        return job_explained(reading, known.job_id, state, here, oldest, last, level)

    def explain_task(self, job: View, index: int, level: int = 1) -> View:
        reading, known = self._known(job)
        here = self._surroundings(reading).situation(known, Index(index))
        oldest, last = reading.folder.oldest, reading.state.position
        return task_explained(reading, here, known, Index(index), oldest, last, level)

    def summary(self) -> View:
        census = Census(self._surroundings(self.reading))
        for job in self.reading.state.jobs.values():
            census.take(job)
        return census.view()

    def operations(self) -> list[View]:
        known = reversed(self.reading.state.operations.values())
        return [operation_view(each, self.reading.wall) for each in known]

    def operation(self, name: str) -> View:
        reading = self.reading
        known = reading.state.operations.get(name)
        if known is None:
            raise no_operation(name, self)
        return looked_at(known, reading, reading.state.position)

    def stalls(self, patience_ms: int) -> list[View]:
        reading, (now, crew) = self.reading, self._crew(self.reading)
        found = noted_stalls(reading, reading.state, now, crew, patience_ms)
        return [stall_view(stall, now, reading.wall) for stall in found]

    def _surroundings(self, reading: Reading) -> Surroundings:
        now, crew = self._crew(reading)
        return Surroundings(reading.state, now, Instant(self.now()), crew)

    def _crew(self, reading: Reading) -> tuple[Instant, NotedCrew | None]:
        """The moment that is looked at: the last record's, or now where nothing came after it; and
        the workers there were, where anybody noted them."""
        offset = reading.wall(reading.state.time) - reading.state.time
        state, now = reading.state, Instant(self.now() - offset)
        is_past = state.position < reading.folder.last
        until = now if is_past else EVER_AFTER
        noted = fleet_at(reading.path, state.position, until)
        paced = paced_at(reading.path, state.position, until)
        return now, None if noted is None else NotedCrew(state, now, noted, paced)

    def schedules(self, namespace: str) -> list[View]:
        reading, now = self.reading, Instant(self.now())
        return [
            schedule_view(reading.state, schedule, reading.wall, now)
            for _, schedule in sorted(reading.state.schedules.items())
            if not namespace or schedule.definition.spec.namespace == namespace
        ]

    def schedule(self, name: str) -> View:
        reading = self.reading
        known = self._schedule(name)
        return schedule_detail(reading.state, known, reading.wall, Instant(self.now()))

    def coming(self, name: str, count: int) -> list[str]:
        found = coming(self._schedule(name), Instant(self.now()), count)
        return [rfc3339(instant) for instant in found]

    def _schedule(self, name: str) -> Schedule:
        known = self.reading.state.schedules.get(name)
        if known is None:
            raise no_schedule(name, self)
        return known

    @property
    def runtimes(self) -> FolderRuntimes:
        return FolderRuntimes(self.reading)

    @property
    def audit(self) -> FolderAudit:
        return FolderAudit(self.path, self._at)

    def transactions(self, limit: int) -> list[View]:
        folder, views = undisturbed(lambda: _newest(self.path, self._at, limit))
        if not views:
            begins = f"its history begins at {folder.oldest}"
            note(f"nothing is kept of {folder.path} up to there; {begins}")
        return views

    def _known(self, job: View) -> tuple[Reading, Job]:
        """Where a job was found, which is the past where it was forgotten since."""
        reading = self._former.get(job["id"], self.reading)
        return reading, reading.state.job_of(JobId(job["id"]))


def _newest(path: Path, at: Moment | None, limit: int) -> tuple[Folder, list[View]]:
    folder, last = look_at(path, at)
    first = max(folder.oldest, last - limit + 1) if limit else folder.oldest
    return folder, [transaction_view(told) for told in folder.records(first, last)]


def transaction_view(told: Told) -> View:
    """One transaction as JSON has it; its time is that of the wall clock."""
    transaction = transaction_of(told.record, told.position)
    time = rfc3339(told.wall(transaction.time))
    return {**to_json(transaction), "time": time}


def find_job(reading: Reading, text: str) -> Job:
    """The one job meant by `text`."""
    jobs = reading.state.jobs
    if text == LAST and JobId(LAST) not in jobs:
        if not jobs:
            raise Trouble(
                f"there is no job in {reading.path} yet. `holdfast demo --keep` makes one.",
                NOT_FOUND,
            )
        return next(reversed(jobs.values()))
    found = _named(reading, text)
    if len(found) == 1:
        return found[0]
    if found:
        raise ambiguous(text, [job.job_id for job in found])
    raise Trouble(
        f"there is no job {text} in {reading.path}. {_listing(reading)}",
        NOT_FOUND,
    )


def _listing(reading: Reading) -> str:
    return f"`holdfast job list --data {typed(reading.path)}` lists what there is."


def recall(reading: Reading, text: str) -> Reading:
    """Where to look for the job that `text` names: here, or at the last moment it was in memory.

    A job that ended long ago is forgotten by a record. The log still has everything before it.
    """
    name = text.rpartition("/")[0] or text
    if name == LAST or _named(reading, name):
        return reading
    for told in reading.folder.records(0, reading.state.position):
        for event in told.record.events:
            if isinstance(event, JobsForgotten) and name in event.job_ids:
                before = _before(reading, name, told.position)
                note(f"job {name} left memory at position {told.position}; this is how it ended")
                return before
    return reading


def _before(reading: Reading, name: str, position: int) -> Reading:
    try:
        return open_folder(reading.path, Moment(position=position - 1))
    except Unreachable:
        raise Trouble(
            f"job {name} left memory at position {position}, and what came before that is no "
            f"longer kept. {_listing(reading)}",
            NOT_FOUND,
        ) from None


def _named(reading: Reading, text: str) -> list[Job]:
    """The job of this name, else those whose names begin with it.

    A number is a whole name: 1 must never come to mean 17 because job 1 was forgotten.
    """
    jobs = reading.state.jobs
    exact = jobs.get(JobId(text))
    if exact is not None:
        return [exact]
    if not text or text.isdigit():
        return []
    return [job for job_id, job in jobs.items() if job_id.startswith(text)]

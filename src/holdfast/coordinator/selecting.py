"""Which jobs and tasks a request about many means, found a portion at a time."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from holdfast.core.ids import Index, Instant, JobId
from holdfast.core.job import RETRYABLE, Job, JobState, is_finished, only_owes
from holdfast.core.operation import (
    CANCEL_JOBS,
    CANCEL_TASKS,
    PURGE_TASKS,
    RESCHEDULE_TASKS,
    RETRY_JOBS,
    RETRY_TASKS,
)
from holdfast.core.state import State
from holdfast.core.task import ASIDE, FRESH, STATE_OF_CELL, TaskState
from holdfast.wire.amounts import duration_ms
from holdfast.wire.operations import Selection
from holdfast.wire.wanted import Wanted

ALL: Final = "all"
LAST: Final = "last"
PORTION_JOBS: Final = 500
PORTION_CELLS: Final = 50_000
TASKS_A_RECORD: Final = 5_000
NAMED_MOST: Final = 200_000
"""How many jobs, or cells of one, are looked at before others have their turn; and how many tasks
one record is about. So many jobs may be named by their numbers."""

_SPAN: Final = re.compile(r"(\d{1,15})(?:-(\d{1,15})(?::(\d{1,15}))?)?")
_WAITING: Final = frozenset({FRESH, ASIDE})

CELLS: Final[Mapping[str, frozenset[int]]] = {
    CANCEL_TASKS: _WAITING | {TaskState.LEASED, TaskState.RUNNING},
    RETRY_TASKS: frozenset(RETRYABLE),
    RESCHEDULE_TASKS: _WAITING,
    PURGE_TASKS: frozenset({TaskState.QUARANTINED, TaskState.UNSCHEDULABLE}),
}
"""The cells of tasks that something can be done to. What is not here is about whole jobs."""


class Unclear(ValueError):
    """A selection that means nothing, or names what is not there."""

    def __init__(self, code: str, told: str) -> None:
        super().__init__(told)
        self.code = code


class Chosen(Struct, frozen=True):
    """A whole job, or some of its tasks. `job` is None between portions."""

    job: Job | None
    indices: tuple[Index, ...] = ()


PAUSE: Final = Chosen(None)


class Selecting:
    """A selection, understood once. What it means is found anew each time it is gone through."""

    def __init__(self, state: State, verb: str, selection: Selection, now: Instant) -> None:
        self._state = state
        self._verb = verb
        self._now = now
        self._user = selection.user
        try:
            self._older_ms = duration_ms(selection.older_than or None, "older_than")
        except (ValueError, OverflowError) as error:
            raise Unclear("invalid", str(error)) from None
        self._cells = CELLS.get(verb)
        states = self._known(selection.states)
        self._wanted = Wanted(
            states=frozenset() if self._cells is not None else states,
            name=selection.name,
            namespace=selection.namespace,
            queue=selection.queue,
            labels=tuple(selection.labels.items()),
        )
        if self._cells is not None and states:
            numbers = {TaskState[name] for name in states}
            self._cells = frozenset(c for c in self._cells if STATE_OF_CELL[c] in numbers)
        narrowed = self._wanted != Wanted() or states or self._user or self._older_ms
        if not selection.names and not narrowed:
            raise Unclear("invalid", "say which: names, `all`, or a name, a label, a state")
        self._looked = 0
        if len(selection.names) > NAMED_MOST // 10:
            raise Unclear("too_large", "these are too many names: choose by a range or a label")
        self._named = self._parsed(selection.names)

    def _known(self, states: Sequence[str]) -> frozenset[str]:
        known = TaskState.__members__ if self._cells is not None else JobState.__members__
        chosen = [name.upper() for name in states]
        for name in chosen:
            if name not in known:
                raise Unclear("invalid", f"state {name[:40]!r} is none of {', '.join(known)}")
        return frozenset(chosen)

    def _parsed(self, names: Sequence[str]) -> dict[JobId, list[range] | None] | None:
        """The jobs that are named, each with the tasks that are, or None for all of them; None
        where every job is meant."""
        if not names or ALL in names:
            return None
        found: dict[JobId, list[range] | None] = {}
        for name in names:
            job_part, slash, span = name.rpartition("/")
            whole = name if not slash else job_part
            ranges = [_span(span, name)] if slash and span != ALL else None
            if ranges is not None and self._cells is None:
                raise Unclear("invalid", f"{name[:40]!r} names tasks, and this is about jobs")
            for job_id in self._jobs_called(whole):
                before = found.get(job_id, [])
                both = None if ranges is None or before is None else [*before, *ranges]
                found[job_id] = both
        return found

    def _jobs_called(self, name: str) -> list[JobId]:
        jobs = self._state.jobs
        if JobId(name) in jobs:
            return [JobId(name)]
        if name == LAST and jobs:
            return [next(reversed(jobs))]
        if "-" in name and _SPAN.fullmatch(name):
            found = self._numbered(_span(name, name))
            if found:
                return found
        raise Unclear("not_found", f"there is no job {name[:40]}")

    def _numbered(self, numbers: range) -> list[JobId]:
        """The jobs with these numbers. Looked up at once, so there is a bound."""
        jobs = self._state.jobs
        self._looked += min(len(numbers), len(jobs))
        if self._looked > NAMED_MOST:
            told = f"ranges of more than {NAMED_MOST:,} jobs: say `all` and narrow it"
            raise Unclear("too_large", told)
        if len(numbers) <= len(jobs):
            names = (JobId(str(number)) for number in numbers)
            return [name for name in names if name in jobs]
        known = (name for name in jobs if name.isascii() and name.isdigit())
        return [name for name in known if int(name) in numbers]

    def __iter__(self) -> Iterator[Chosen]:
        """What is meant, as it is when its turn comes, with pauses between portions."""
        names = list(self._state.jobs if self._named is None else self._named)
        looked = 0
        for job_id in names:
            looked += 1
            job = self._state.jobs.get(job_id)
            if job is not None and self._takes(job):
                if self._cells is None:
                    yield Chosen(job)
                else:
                    ranges = None if self._named is None else self._named[job_id]
                    yield from self._tasks(job, ranges)
            if looked >= PORTION_JOBS:
                looked = 0
                yield PAUSE

    def _takes(self, job: Job) -> bool:
        if self._user and job.spec.user != self._user:
            return False
        if self._older_ms and self._now - job.created_at < self._older_ms:
            return False
        if not self._wanted.takes(job):
            return False
        if self._named is None and self._verb == CANCEL_JOBS:
            return not only_owes(job) and not is_finished(job)
        if self._named is None and self._verb == RETRY_JOBS:
            return any(cell in job.states for cell in RETRYABLE)
        return True

    def _tasks(self, job: Job, ranges: list[range] | None) -> Iterator[Chosen]:
        """Its tasks that something can be done to. What is named and is not there is passed by."""
        cells = self._cells or frozenset()
        for named in ranges if ranges is not None else [range(job.count)]:
            # A range may be named that goes far beyond the job.
            wanted = range(named.start, min(named.stop, job.count), named.step)
            for first in range(0, len(wanted), PORTION_CELLS):
                part = wanted[first : first + PORTION_CELLS]
                states = job.states
                inside = (i for i in part if i < len(states))
                found = tuple(Index(i) for i in inside if states[i] in cells)
                for at in range(0, len(found), TASKS_A_RECORD):
                    yield Chosen(job, found[at : at + TASKS_A_RECORD])
                    yield PAUSE


def _span(text: str, name: str) -> range:
    """`3`, `3-7`, `0-10:2`: ends included."""
    match = _SPAN.fullmatch(text)
    if match is None:
        raise Unclear("invalid", f"{name[:40]!r} is no job or task: write 12, 1-10:2 or 12/3-7")
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    if last < first or not step:
        raise Unclear("invalid", f"{text[:40]!r} goes nowhere")
    return range(first, last + 1, step)

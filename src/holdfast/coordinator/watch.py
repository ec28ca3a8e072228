"""Telling those who wait what has become of a job, in the order of the log and never early.

A feed is given the job as it stood, then every change after it. News is noted when a record is
applied and handed on when it is durable.
"""

from array import array
from collections import deque
from collections.abc import Sequence
from typing import Protocol, cast

from msgspec import Struct

from holdfast.core import events as e
from holdfast.core.ids import Index, JobId, Position
from holdfast.core.job import Job, is_finished, job_reason, job_state
from holdfast.core.record import Record
from holdfast.core.state import State
from holdfast.core.task import TaskState


class JobNow(Struct, frozen=True):
    """A job as it stood when somebody began to watch."""

    states: bytes
    ends: "array[int]"
    sealed: bool
    ended: str
    reason: str


class Feed(Protocol):
    """Somebody who watches one job. Called from the coordinator's thread; must not block."""

    job_id: JobId

    def begin(self, now: JobNow) -> None: ...

    def grown(self, count: int, sealed: bool) -> None: ...

    def finished(self, indices: Sequence[Index], state: TaskState, position: Position) -> None: ...

    def reopened(self, indices: Sequence[Index]) -> None: ...

    def ended(self, state: str, reason: str) -> None: ...

    def broken(self, error: Exception) -> None: ...


class Watchers:
    def __init__(self, state: State) -> None:
        self._state = state
        self._feeds: dict[JobId, list[Feed]] = {}
        self._news: deque[tuple[Position, Feed, str, tuple[object, ...]]] = deque()

    def held(self) -> frozenset[JobId]:
        return frozenset(self._feeds)

    def add(self, feed: Feed) -> bool:
        """Begin to watch; False where there is no such job."""
        job = self._state.jobs.get(feed.job_id)
        if job is None:
            return False
        self._feeds.setdefault(feed.job_id, []).append(feed)
        self._news.append((self._state.position, feed, "begin", (_now(job),)))
        return True

    def remove(self, feed: Feed) -> None:
        feeds = self._feeds.get(feed.job_id, [])
        if feed in feeds:
            feeds.remove(feed)
        if not feeds:
            self._feeds.pop(feed.job_id, None)

    def note(self, position: Position, record: Record) -> None:
        """A record was applied: remember what watchers will be told once it is durable."""
        if not self._feeds:
            return
        touched: dict[JobId, Job] = {}
        for event in record.events:
            job_id = getattr(event, "job_id", None)
            feeds = self._feeds.get(job_id) if job_id is not None else None
            if not feeds or job_id is None:
                continue
            touched[job_id] = self._state.jobs[job_id]
            for what, args in _telling(event, position, touched[job_id]):
                for feed in feeds:
                    self._news.append((position, feed, what, args))
        for job_id, job in touched.items():
            if is_finished(job):
                end = (job_state(job).value, job_reason(job))
                for feed in self._feeds[job_id]:
                    self._news.append((position, feed, "ended", end))

    def tell(self, durable: Position) -> None:
        """Everything up to `durable` may be known outside."""
        news = self._news
        while news and news[0][0] <= durable:
            _, feed, what, args = news.popleft()
            getattr(feed, what)(*args)

    def fail(self, error: Exception) -> None:
        for feeds in self._feeds.values():
            for feed in feeds:
                feed.broken(error)


def _now(job: Job) -> JobNow:
    done = is_finished(job)
    return JobNow(
        states=bytes(job.states),
        ends=_ends(job),
        sealed=job.sealed,
        ended=job_state(job).value if done else "",
        reason=job_reason(job),
    )


def _ends(job: Job) -> "array[int]":
    """Where each end is recorded. To a watcher a task has ended with its commit, though it owes."""
    ends = array("Q", job.ends or ())
    if TaskState.COMMITTED in job.states:
        ends.frombytes(bytes(ends.itemsize * (len(job.states) - len(ends))))
        for index, task in (job.tasks or {}).items():
            if task.state is TaskState.COMMITTED:
                ends[index] = task.committed
    return ends


def _telling(
    event: e.AnyEvent, position: Position, job: Job
) -> list[tuple[str, tuple[object, ...]]]:
    """What an event means to a watcher."""
    if isinstance(event, e.TasksCompleted):
        done = _joined([commit.index for commit in event.commits])
        return [("finished", (done, TaskState.SUCCEEDED, position))]
    if isinstance(event, e.TaskCommitted):
        # The result is ready at the commit; what is owed is delivered without the watcher.
        return [("finished", ([event.commit.index], TaskState.SUCCEEDED, position))]
    if isinstance(event, e.TasksQuarantined):
        indices = [end.index for end in event.ends]
        return [("finished", (indices, TaskState.QUARANTINED, position))]
    if isinstance(event, e.TasksKilled | e.TasksSetAside):
        killed = isinstance(event, e.TasksKilled)
        state = TaskState.KILLED if killed else TaskState.QUARANTINED
        ended = [[end.index for end in event.ends]] if event.ends else []
        runs = [*_runs(event.spans), *ended]
        return [("finished", (run, state, position)) for run in runs]
    if isinstance(event, e.TasksUnschedulable):
        runs = [*_runs(event.spans)]
        return [("finished", (run, TaskState.UNSCHEDULABLE, position)) for run in runs]
    if isinstance(event, e.TasksRetried | e.TasksRestored):
        return [("reopened", (run,)) for run in _runs(event.spans)]
    if isinstance(event, e.TasksAdded | e.JobSealed | e.JobCancelled):
        return [("grown", (job.count, job.sealed))]
    return []


def _joined(indices: list[Index]) -> Sequence[Index]:
    """The same indices, as a range where they are neighbours in order."""
    run = range(indices[0], indices[0] + len(indices)) if indices else range(0)
    return cast(Sequence[Index], run) if indices == list(run) else indices


def _runs(spans: tuple[e.Span, ...]) -> list[Sequence[Index]]:
    """Neighbours as ranges: a watcher takes a million of them in one step."""
    return [cast(Sequence[Index], range(span.first, span.last + 1)) for span in spans]

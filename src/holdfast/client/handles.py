"""What a program holds of the work it asked for: one task, or a job of many.

Handles are awaitable and behave like those of `concurrent.futures`. What they show is durable.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any, Generic, Literal, TypeVar, overload

from holdfast.client.errors import JobFailed, Refused, TaskFailed
from holdfast.client.feed import UNFINISHED, JobFeed
from holdfast.client.local import Local
from holdfast.client.progress import wait_with_bar
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import Index, JobId, Position, task_name
from holdfast.core.job import job_state
from holdfast.core.task import TaskState

R = TypeVar("R")

Decode = Callable[[bytes], Any]


class Outcomes:
    """Reads results and errors from the log, a record at a time: neighbours share one."""

    def __init__(
        self, local: Local, job_id: JobId, decode: Decode, *, return_exceptions: bool = False
    ) -> None:
        self._return_exceptions = return_exceptions
        self._local = local
        self._job_id = job_id
        self._decode = decode
        self._position = Position(0)
        self._results: dict[Index, bytes] = {}
        self._ends: dict[Index, e.End] = {}

    def value(self, index: Index, state: int, position: Position) -> Any:
        """The result of a task, or the error it ended with, raised."""
        if position != self._position:
            self._load(position)
        if state == TaskState.SUCCEEDED:
            return self._decode(self._results[index])
        end = self._ends.get(index)
        error, traceback = ("", "") if end is None else (end.error, end.traceback)
        failure = TaskFailed(
            task_name(self._job_id, index), TaskState(state).name, error, traceback
        )
        if self._return_exceptions:
            return failure
        raise failure

    def _load(self, position: Position) -> None:
        self._results, self._ends = {}, {}
        for event in self._local.record(position).events:
            if getattr(event, "job_id", None) != self._job_id:
                continue
            if isinstance(event, e.TasksCompleted):
                self._results.update((commit.index, commit.result) for commit in event.commits)
            elif isinstance(event, e.TaskCommitted):
                self._results[event.commit.index] = event.commit.result
            elif isinstance(event, e.TasksQuarantined | e.TasksKilled):
                self._ends.update((end.index, end) for end in event.ends)
        self._position = position


class Job(Generic[R]):
    """A job of many tasks: a map, or an array."""

    def __init__(
        self, local: Local, feed: JobFeed, decode: Decode, feeding: "Feeding | None" = None
    ) -> None:
        self._local = local
        self._feed = feed
        self._decode = decode
        self._feeding = feeding

    @property
    def id(self) -> str:
        return self._feed.job_id

    @property
    def state(self) -> str:
        """PENDING, RUNNING, SUCCEEDED, FAILED, KILLED or UNSCHEDULABLE."""
        if self._feed.state and not self._local.is_foreign():
            return self._feed.state
        job_id = self._feed.job_id

        def ask(coordinator: Any) -> str | None:
            job = coordinator.state.jobs.get(job_id)
            return None if job is None else job_state(job).value

        found = self._local.call(ask)
        if found is None:
            raise Refused("gone", f"job {job_id} left memory; `holdfast job show` reads the log")
        return found

    @property
    def reason(self) -> str:
        return self._feed.reason

    def done(self) -> bool:
        return bool(self._feed.state)

    def wait(self, timeout: float | None = None, *, progress: bool = False) -> bool:
        """Wait until the job has ended, well or not; False when the time is up first. `progress`
        draws a bar on a terminal, and then waits for the end."""
        self._local.check_waitable(self._feed.state)

        def wait(seconds: float | None) -> bool:
            return self._feed.wait_for(lambda: bool(self._feed.state), seconds)

        if progress and timeout is None:
            return wait_with_bar(self._feed, f"job {self.id}", wait)
        return wait(timeout)

    def cancel(self, reason: str = "") -> bool:
        """Stop the job. False when it had ended already."""
        return bool(self._local.execute(c.KillJob(job_id=self._feed.job_id, reason=reason)))

    @overload
    def results(self, *, return_exceptions: Literal[False] = False) -> "Results[R]": ...

    @overload
    def results(self, *, return_exceptions: bool) -> "Results[R | TaskFailed]": ...

    def results(self, *, return_exceptions: bool = False) -> "Results[Any]":
        """The results in the order of the items, each as soon as it and all before it are there.
        A task that ended without one raises `TaskFailed` at its place, or with
        `return_exceptions` is given as one."""
        return self._results(in_order=True, return_exceptions=return_exceptions)

    @overload
    def as_completed(self, *, return_exceptions: Literal[False] = False) -> "Results[R]": ...

    @overload
    def as_completed(self, *, return_exceptions: bool) -> "Results[R | TaskFailed]": ...

    def as_completed(self, *, return_exceptions: bool = False) -> "Results[Any]":
        """The results in the order in which tasks finish."""
        return self._results(in_order=False, return_exceptions=return_exceptions)

    def _results(self, *, in_order: bool, return_exceptions: bool) -> "Results[Any]":
        outcomes = Outcomes(
            self._local, self._feed.job_id, self._decode, return_exceptions=return_exceptions
        )
        return Results(self._local, self._feed, outcomes, self._feeding, in_order=in_order)

    def __len__(self) -> int:
        """How many tasks the job has; so far, while it is being fed."""
        return len(self._feed.cells)

    def __await__(self) -> Generator[Any, None, list[R]]:
        return self._all().__await__()

    async def _all(self) -> list[R]:
        return [value async for value in self.results()]

    def __repr__(self) -> str:
        feed = self._feed
        state = feed.state or "unfinished"
        return f"<job {feed.job_id} {state} {feed.done_count}/{len(feed.cells)}>"

    def _repr_html_(self) -> str:
        feed = self._feed
        total = len(feed.cells)
        share = 100 * feed.done_count // total if total else 0
        return (
            f"<div><b>job {feed.job_id}</b> {feed.state or 'unfinished'}"
            f'<div style="background:#ddd;width:20em"><div style="background:#4a8;width:{share}%">'
            f"&nbsp;</div></div>{feed.done_count} of {total} tasks</div>"
        )


class Feeding:
    """A map that is still being fed: what went wrong while feeding is told to whoever waits."""

    error: BaseException | None = None


class Results(Generic[R]):
    """Results one by one; works in `for` and in `async for`."""

    def __init__(
        self,
        local: Local,
        feed: JobFeed,
        outcomes: "Outcomes",
        feeding: Feeding | None,
        *,
        in_order: bool,
    ) -> None:
        self._local = local
        self._feed = feed
        self._feeding = feeding
        self._outcomes = outcomes
        self._in_order = in_order
        self._next = 0

    def __iter__(self) -> Iterator[R]:
        while True:
            self._local.check_open()
            self._feed.wait_for(self._is_ready, None)
            if self._is_over():
                return
            yield from self._ready()

    async def __aiter__(self) -> AsyncIterator[R]:
        while True:
            self._local.check_open()
            await until(self._feed, self._is_ready)
            if self._is_over():
                return
            for value in self._ready():
                yield value

    def _is_ready(self) -> bool:
        feed, place = self._feed, self._next
        if self._in_order:
            if place < len(feed.cells):
                return feed.cells[place] != UNFINISHED
            return feed.begun and feed.sealed
        return place < len(feed.order) or bool(feed.state)

    def _is_over(self) -> bool:
        feed = self._feed
        available = len(feed.cells) if self._in_order else len(feed.order)
        if self._next < available:
            return False
        if self._feeding is not None and self._feeding.error is not None:
            raise self._feeding.error
        if feed.reason == "interrupted":
            raise JobFailed(feed.job_id, feed.state, feed.reason, "its items stopped coming")
        return True

    def _ready(self) -> Iterator[R]:
        """Everything that can be had without waiting, in turn."""
        feed, value = self._feed, self._outcomes.value
        cells, positions = feed.cells, feed.positions
        if self._in_order:
            found = cells.find(UNFINISHED, self._next)
            stop = len(cells) if found < 0 else found
        else:
            stop = len(feed.order)
        while self._next < stop:
            place = self._next
            index = place if self._in_order else feed.order[place]
            unfinished = cells[index] == UNFINISHED
            if unfinished and self._in_order:
                return  # It was sent back just now: its place is kept for it.
            self._next += 1
            # In the order of finishing, a task that was sent back comes again later.
            if not unfinished and (self._in_order or place not in feed.superseded):
                yield value(Index(index), cells[index], Position(positions[index]))


class Handle(Generic[R]):
    """One submitted call."""

    def __init__(self, local: Local, feed: JobFeed, decode: Decode) -> None:
        self._local = local
        self._feed = feed
        self._job: Job[R] = Job(local, feed, decode)
        self._outcomes = Outcomes(local, feed.job_id, decode)

    @property
    def id(self) -> str:
        return self._job.id

    @property
    def state(self) -> str:
        return self._job.state

    @property
    def reason(self) -> str:
        return self._job.reason

    def done(self) -> bool:
        return self._is_ready()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the task has a result or has ended without; False when the time is up."""
        self._local.check_waitable(self._feed.state)
        return self._feed.wait_for(self._is_ready, timeout)

    def result(self, timeout: float | None = None) -> R:
        """The function's result; raises `TaskFailed` where it has none, `TimeoutError` in time."""
        if not self.wait(timeout):
            raise TimeoutError(f"task {self.id}/0 has no result after {timeout:g} s")
        return self._value()

    def exception(self, timeout: float | None = None) -> TaskFailed | None:
        """The error the task ended with, or None where it succeeded."""
        try:
            self.result(timeout)
        except TaskFailed as error:
            return error
        return None

    def cancel(self, reason: str = "") -> bool:
        return self._job.cancel(reason)

    def __await__(self) -> Generator[Any, None, R]:
        return self._awaited().__await__()

    async def _awaited(self) -> R:
        self._local.check_waitable(self._feed.state)
        await until(self._feed, self._is_ready)
        return self._value()

    def _is_ready(self) -> bool:
        cells = self._feed.cells
        return len(cells) > 0 and cells[0] != UNFINISHED

    def _value(self) -> R:
        feed = self._feed
        value: R = self._outcomes.value(Index(0), feed.cells[0], Position(feed.positions[0]))
        return value

    def __repr__(self) -> str:
        return f"<handle {self.id} {self._feed.state or 'unfinished'}>"

    def _repr_html_(self) -> str:
        return self._job._repr_html_()


async def until(feed: JobFeed, ready: Callable[[], bool]) -> None:
    """Wait on an event loop until `ready`, woken by the coordinator's thread."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()

    def wake() -> None:
        # A loop that was closed under us is nobody's trouble but its own.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(changed.set)

    feed.call_on_change(wake)
    try:
        while not ready():
            if feed.error is not None:
                raise feed.error
            await changed.wait()
            changed.clear()
    finally:
        feed.drop_callback(wake)

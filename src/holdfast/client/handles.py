"""What a program holds of the work it asked for: one task, or a job of many.

Handles are awaitable and behave like those of `concurrent.futures`. What they show is durable.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any, Generic, Literal, TypeVar, overload

from holdfast.client.backend import Backend, Decode, Outcomes
from holdfast.client.errors import JobFailed, ResultLost, TaskFailed
from holdfast.client.explained import Explained
from holdfast.client.feed import UNFINISHED, JobFeed
from holdfast.client.logs import read_logs
from holdfast.client.progress import wait_with_bar
from holdfast.core.errors import OperatingError

R = TypeVar("R")


class Job(Generic[R]):
    """A job of many tasks: a map, or an array."""

    def __init__(
        self, backend: Backend, feed: JobFeed, decode: Decode, feeding: "Feeding | None" = None
    ) -> None:
        self._backend = backend
        self._feed = feed
        self._decode = decode
        self._feeding = feeding

    @property
    def id(self) -> str:
        return self._feed.job_id

    @property
    def state(self) -> str:
        """PENDING, RUNNING, SUCCEEDED, FAILED, KILLED or UNSCHEDULABLE."""
        if self._feed.state and not self._backend.is_foreign():
            return self._feed.state
        return self._backend.state_of(self._feed.job_id)

    @property
    def reason(self) -> str:
        return self._feed.reason

    def done(self) -> bool:
        return bool(self._feed.state)

    def wait(self, timeout: float | None = None, *, progress: bool = False) -> bool:
        """Wait until the job has ended, well or not; False when the time is up first. `progress`
        draws a bar on a terminal, and then waits for the end."""
        self._backend.check_waitable(self._feed.state)

        def wait(seconds: float | None) -> bool:
            return self._feed.wait_for(lambda: bool(self._feed.state), seconds)

        if progress and timeout is None:
            return wait_with_bar(self._feed, f"job {self.id}", wait)
        return wait(timeout)

    def cancel(self, reason: str = "") -> bool:
        """Stop the job. False when it had ended already."""
        return self._backend.cancel_job(self._feed.job_id, reason)

    def explain(self) -> Explained:
        """Why the job is where it is: everything that its tasks wait for."""
        return self._backend.reasons.of(self._feed.job_id, None)

    def logs(
        self, index: int = 0, *, attempt: int | None = None, stream: str = "stdout"
    ) -> str:
        """What a task has printed so far, by default its last attempt: `stdout` or `stderr`. A
        server keeps that; inside a program nobody does, and `Refused` says so."""
        return read_logs(
            self._backend, self._feed.job_id, index, attempt=attempt, stream=stream
        )

    @overload
    def results(self, *, return_exceptions: Literal[False] = False) -> "Results[R]": ...

    @overload
    def results(self, *, return_exceptions: bool) -> "Results[R | TaskFailed | ResultLost]": ...

    def results(self, *, return_exceptions: bool = False) -> "Results[Any]":
        """The results in the order of the items, each as soon as it and all before it are there.
        A task that ended without one raises `TaskFailed` at its place, or with
        `return_exceptions` is given as one; so does `ResultLost` where the disk lost a result."""
        return self._results(in_order=True, return_exceptions=return_exceptions)

    @overload
    def as_completed(self, *, return_exceptions: Literal[False] = False) -> "Results[R]": ...

    @overload
    def as_completed(
        self, *, return_exceptions: bool
    ) -> "Results[R | TaskFailed | ResultLost]": ...

    def as_completed(self, *, return_exceptions: bool = False) -> "Results[Any]":
        """The results in the order in which tasks finish."""
        return self._results(in_order=False, return_exceptions=return_exceptions)

    def _results(self, *, in_order: bool, return_exceptions: bool) -> "Results[Any]":
        outcomes = self._backend.outcomes(
            self._feed, self._decode, return_exceptions=return_exceptions
        )
        return Results(self._backend, self._feed, outcomes, self._feeding, in_order=in_order)

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
        backend: Backend,
        feed: JobFeed,
        outcomes: Outcomes,
        feeding: Feeding | None,
        *,
        in_order: bool,
    ) -> None:
        self._backend = backend
        self._feed = feed
        self._feeding = feeding
        self._outcomes = outcomes
        self._in_order = in_order
        self._next = 0

    def __iter__(self) -> Iterator[R]:
        while True:
            self._check()
            self._feed.wait_for(self._is_ready, None)
            if self._is_over():
                return
            yield from self._ready()

    async def __aiter__(self) -> AsyncIterator[R]:
        while True:
            self._check()
            await until(self._feed, self._is_ready)
            if self._is_over():
                return
            for index, state, position in self._ended():
                try:
                    found = await read(self._outcomes, index, state, position)
                except OperatingError:
                    self._next -= 1
                    raise
                yield found

    def _check(self) -> None:
        self._backend.check_open()
        self._backend.check_waitable(self._feed.state)

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
        """Everything that can be had without waiting for a task, in turn."""
        value = self._outcomes.value
        for index, state, position in self._ended():
            try:
                found = value(index, state, position)
            except OperatingError:
                self._next -= 1  # Nobody could tell: whoever asks again begins here.
                raise
            yield found

    def _ended(self) -> Iterator[tuple[int, int, int]]:
        """The tasks that can be read now: where each is, how it ended, and where that is told."""
        feed, in_order, first = self._feed, self._in_order, self._next
        cells, positions = feed.cells, feed.positions
        if in_order:
            found = cells.find(UNFINISHED, first)
            stop = len(cells) if found < 0 else found
            self._outcomes.expect(range(stop), first, stop)
        else:
            stop = len(feed.order)
            self._outcomes.expect(feed.order, first, stop)
        for place in range(first, stop):
            index = place if in_order else feed.order[place]
            state = cells[index]
            if state == UNFINISHED and in_order:
                return  # It was sent back just now: its place is kept for it.
            self._next = place + 1
            # In the order of finishing, a task that was sent back comes again later.
            if state != UNFINISHED and (in_order or place not in feed.superseded):
                yield index, state, positions[index]


class Handle(Generic[R]):
    """One submitted call."""

    def __init__(self, backend: Backend, feed: JobFeed, decode: Decode) -> None:
        self._backend = backend
        self._feed = feed
        self._job: Job[R] = Job(backend, feed, decode)
        self._outcomes = backend.outcomes(feed, decode)

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
        self._backend.check_waitable(self._feed.state)
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

    def explain(self) -> Explained:
        """Why the call is where it is: everything that it waits for."""
        return self._job.explain()

    def logs(self, *, attempt: int | None = None, stream: str = "stdout") -> str:
        """What it has printed so far, by default in its last attempt. See `Job.logs`."""
        return self._job.logs(0, attempt=attempt, stream=stream)

    def cancel(self, reason: str = "") -> bool:
        return self._job.cancel(reason)

    def __await__(self) -> Generator[Any, None, R]:
        return self._awaited().__await__()

    async def _awaited(self) -> R:
        self._backend.check_waitable(self._feed.state)
        await until(self._feed, self._is_ready)
        feed = self._feed
        value: R = await read(self._outcomes, 0, feed.cells[0], feed.positions[0])
        return value

    def _is_ready(self) -> bool:
        cells = self._feed.cells
        return len(cells) > 0 and cells[0] != UNFINISHED

    def _value(self) -> R:
        feed = self._feed
        value: R = self._outcomes.value(0, feed.cells[0], feed.positions[0])
        return value

    def __repr__(self) -> str:
        return f"<handle {self.id} {self._feed.state or 'unfinished'}>"

    def _repr_html_(self) -> str:
        return self._job._repr_html_()


async def read(outcomes: Outcomes, index: int, state: int, position: int) -> Any:
    """How a task ended; the loop is not held up where that has to be fetched."""
    if not outcomes.holds(index, position):
        await asyncio.to_thread(outcomes.fetch, index, position)
    return outcomes.value(index, state, position)


async def until(feed: JobFeed, ready: Callable[[], bool]) -> None:
    """Wait on an event loop until `ready`, woken by whoever tells the feed."""
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

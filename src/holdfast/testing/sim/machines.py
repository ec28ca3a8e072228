"""Machines with clocks of their own, and the processes that run on them.

A process is an event loop as far as programs built on one can tell: callbacks, timers, futures and
tasks. It is driven by the agenda, its timers go by the clock of its machine, and it can be frozen
and killed at any moment. Threads are not simulated: what a program gives to another thread is done
in a later pass.
"""

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Final, TypeVar, cast

from holdfast.testing.sim.agenda import SECOND, Agenda

T = TypeVar("T")

PPM = 1_000_000
SPINNING: Final = 100_000
"""So many callbacks in one pass, and a real program would never come back to its loop."""


class Killed(BaseException):
    """The process is no more. Not an `Exception`: no code under test may catch and survive it."""


class Machine:
    """One host: how long it is up, and its wall clock. `drift_ppm` is how much faster than true
    time both run; only the wall clock can be set."""

    def __init__(
        self, agenda: Agenda, name: str, *, up_us: int, wall_us: int, drift_ppm: int
    ) -> None:
        self.agenda = agenda
        self.name = name
        self.pids = 0
        self._up_us = up_us
        self._wall_us = wall_us
        self._rate = PPM + drift_ppm

    def boot_us(self) -> int:
        return self._up_us + self.agenda.now_us * self._rate // PPM

    def boot_ms(self) -> int:
        return self.boot_us() // 1_000

    def wall_ms(self) -> int:
        return (self._wall_us + self.agenda.now_us * self._rate // PPM) // 1_000

    def host(self) -> str:
        return self.name

    def pid(self) -> int:
        return self.pids

    def set_wall(self, by_ms: int) -> None:
        """Somebody sets the wall clock."""
        self._wall_us += by_ms * 1_000

    def true_at(self, boot_us: int) -> int:
        """When, in true time, this machine will have been up so long."""
        return -(-(boot_us - self._up_us) * PPM // self._rate)


class _Handle:
    """A callback that can be called off."""

    __slots__ = ("_when", "arguments", "callback", "is_cancelled")

    def __init__(
        self, callback: Callable[..., object], arguments: tuple[Any, ...], when: float = 0.0
    ) -> None:
        self.callback = callback
        self.arguments = arguments
        self.is_cancelled = False
        self._when = when

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self._when


class Process:
    """`died` is called when something in it was its end; `failed` with what it did not expect."""

    def __init__(
        self,
        machine: Machine,
        name: str,
        died: Callable[[BaseException], None],
        failed: Callable[[str], None],
    ) -> None:
        machine.pids += 1
        self.machine = machine
        self.name = name
        self.is_alive = True
        self._agenda = machine.agenda
        self._died = died
        self._failed = failed
        self._ready: deque[_Handle] = deque()
        self._is_called = False
        self._frozen_until = 0
        # Not all of one, but all that anybody here asks for.
        self._loop = cast(asyncio.AbstractEventLoop, self)
        self._tasks: dict[asyncio.Task[Any], None] = {}

    # What a simulation does to it.

    def post(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Something comes from outside."""
        self.call_soon(callback, *arguments)

    @property
    def is_frozen(self) -> bool:
        return self._agenda.now_us < self._frozen_until

    def freeze(self, us: int) -> None:
        """It is stopped and goes on later, with no idea that time has passed."""
        self._frozen_until = max(self._frozen_until, self._agenda.now_us + us)

    def thaw(self) -> None:
        """It goes on now."""
        self._frozen_until = 0
        self.call_soon(_nothing)

    def end(self) -> None:
        """It is gone from this moment on; its own code hears of it only to tidy up in memory."""
        self.is_alive = False
        # Only tasks are stepped once more, to be told that it is over.
        self._ready = deque(handle for handle in self._ready if _is_step(handle.callback))
        for task in list(self._tasks):
            task.cancel()
        self._run_ready()

    # What its own code sees: an event loop.

    def time(self) -> float:
        return self.machine.boot_us() / SECOND

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Handle:
        handle = _Handle(callback, args)
        self._ready.append(handle)
        if not self._is_called and self.is_alive:
            self._is_called = True
            self._agenda.after(0, self._pass)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> _Handle:
        return self.call_at(self.time() + delay, callback, *args)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> _Handle:
        handle = _Handle(callback, args, when)
        if self.is_alive:
            due = self.machine.true_at(-int(-when * SECOND // 1))
            self._agenda.at(due, lambda: self._ring(handle))
        return handle

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self._loop)

    def create_task(
        self, coro: Coroutine[Any, Any, T], **ignored: Any
    ) -> "asyncio.Task[T]":
        task = asyncio.Task(coro, loop=self._loop)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def run_in_executor(
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if not future.cancelled():
                future.set_result(func(*args))

        self.call_soon(work)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.is_alive:
            error = context.get("exception")
            self._failed(f"{self.name}: {context.get('message')}: {error!r}")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return not self.is_alive

    # Passes.

    def _ring(self, handle: _Handle) -> None:
        if self.is_alive and not handle.is_cancelled:
            self._ready.append(handle)
            self._pass()

    def _pass(self) -> None:
        self._is_called = False
        if not self.is_alive or not self._ready:
            return
        if self._agenda.now_us < self._frozen_until:
            self._is_called = True
            self._agenda.at(self._frozen_until, self._pass)
            return
        try:
            self._run_ready()
        except BaseException as error:  # noqa: BLE001 - whatever ends a process ends no simulation
            self._died(error)

    def _run_ready(self) -> None:
        ready, passes = self._ready, 0
        events._set_running_loop(self._loop)
        try:
            while ready:
                handle = ready.popleft()
                passes += 1
                if passes > SPINNING:
                    raise RuntimeError(f"{self.name} does not come to rest")
                if not handle.is_cancelled:
                    handle.callback(*handle.arguments)
        finally:
            events._set_running_loop(None)


def _is_step(callback: Callable[..., object]) -> bool:
    """Whether this goes on with a task, or begins it."""
    owner = getattr(callback, "__self__", None)
    return isinstance(owner, asyncio.Task) or type(callback).__name__.startswith("Task")


def _nothing() -> None:
    """Only a pass is wanted."""

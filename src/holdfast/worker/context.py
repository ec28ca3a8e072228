"""A task as its own code sees it: who it is, how long it may go on, and what it promises.

What a task promises happens after its commit and only then: the promises travel with the result,
in one record. A task that fails takes none of them along.
"""

import os
import threading
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from logging import Logger
from types import TracebackType
from typing import IO, Any, Final, Protocol

from holdfast.core.owed import BLOCK, EFFECT, Entry
from holdfast.wire.delivery import Origin
from holdfast.wire.exchange import Done, Progress
from holdfast.worker.bearings import Ids
from holdfast.worker.errors import (
    CannotPromise,
    DuplicateEffect,
    EffectTooLarge,
    LeaseLost,
    NotInTask,
    UnknownSink,
)
from holdfast.worker.payloads import encode_result
from holdfast.worker.progressing import Teller
from holdfast.worker.promised import counted, encoded_body
from holdfast.worker.results import INLINE_BYTES
from holdfast.worker.seat import Seat
from holdfast.worker.staging import Staging
from holdfast.worker.tasklog import task_logger
from holdfast.worker.troubles import bounded, describe

BODIES_BYTES_MAX: Final = 8 * 1024 * 1024
"""All of one task together: they are one record."""
ENTRIES_MAX: Final = 1_000
KEY_MAX: Final = 1_000
NOTE_BYTES_MAX: Final = 200

ENDED: Final = "the task that this is part of has ended; nothing more can be asked of it or for it"
COPY: Final = (
    "this is a forked copy of a task's process, which cannot speak for the task; do it where the "
    "task itself runs"
)
ASKED: Final = "this task has asked for its commit: nothing more can be part of it"
COMMITTED: Final = "this task has committed: its result and what it promised are recorded already"

_MAKING: Final = threading.Lock()

class Part(Protocol):
    """Something else that makes promises within a task, such as its staged files."""

    @property
    def unfinished(self) -> list[str]:
        """What must be brought to an end before there can be a commit."""

    def entries(self) -> list[Entry]:
        """What a commit made now would owe."""

    def discard(self) -> None:
        """The attempt does not commit: nothing of it stays."""


class Context:
    """What `holdfast.current()` gives. The same one for a whole attempt, in all its threads."""

    def __init__(self, ids: Ids, seat: Seat | None) -> None:
        self._seat = seat
        self.parts: list[Part] = []
        self.is_committed = False
        # Whether it has asked for its commit: whatever comes of that, nothing is added any more.
        self._has_asked = False
        self._knew_to_stop = False
        self._ids = ids
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._effects: list[Entry] = []
        self._staging: Staging | None = None
        self._keys: set[tuple[str, str]] = set()
        self._bytes = 0
        self._is_closed = False
        self._log: Logger | None = None
        self._teller: Teller | None = None

    @property
    def seat(self) -> Seat | None:
        """Where it runs; None for a command."""
        return self._seat

    @property
    def knew_to_stop(self) -> bool:
        return self._knew_to_stop

    # Who it is.

    @property
    def job_id(self) -> str:
        return self._ids.job_id

    @property
    def index(self) -> int:
        """Which task of its job this is, from zero."""
        return self._ids.index

    @property
    def task_id(self) -> str:
        return f"{self._ids.job_id}/{self._ids.index}"

    @property
    def attempt(self) -> int:
        """Which try this is, from one."""
        return self._ids.attempt

    @property
    def attempt_id(self) -> str:
        return f"{self.task_id}:{self._ids.attempt}"

    @property
    def token(self) -> int:
        """The fencing token: larger than that of every earlier attempt of any task. Whoever keeps
        the largest it has seen can turn away those that came too late."""
        return self._ids.lease_id

    @property
    def worker(self) -> str:
        return self._ids.worker

    def __repr__(self) -> str:
        return f"<holdfast task {self.attempt_id}>"

    # How long it may go on.

    @property
    def remaining(self) -> float | None:
        """Seconds until its timeout, never below zero; None where it has none, or has committed."""
        if self._seat is None or self.is_committed:
            return None
        (run, _), began_ms, host = self._seat
        if not run.timeout_ms:
            return None
        return max(0, began_ms + run.timeout_ms - host.clock_ms()) / 1_000

    @property
    def deadline(self) -> datetime | None:
        """The same as an instant."""
        left = self.remaining
        return None if left is None else datetime.now(UTC) + timedelta(seconds=left)

    @property
    def should_stop(self) -> bool:
        """Whether this attempt was asked to end: its lease is lost, it was cancelled, it took too
        long, or its program is closing. One that looks gets a grace before its process is killed;
        a thread is never killed, so it had better look. One that looked and then raises has not
        failed: it is given back, and no budget is charged."""
        if self._seat is None or not self._seat[2].is_stopping(self._ids.lease_id):
            return False
        self._knew_to_stop = True
        return True

    # What it says.

    @property
    def log(self) -> Logger:
        """Its lines go to the error output of this attempt, named by it."""
        if self._log is None:
            self._log = task_logger(self.attempt_id)
        return self._log

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far it has come, as often as you like: about one word a second goes out. A task
        with a stall timeout must say something within it."""
        (run, _), _, host = self._speaker("progress()")
        told = Progress(
            self._ids.lease_id, counted(done, "done"), counted(total or 0, "total"),
            bounded(str(note), NOTE_BYTES_MAX),
        )  # fmt: skip
        with self._lock:
            if self._is_closed:
                raise NotInTask(ENDED)
            if self._teller is None:
                self._teller = Teller(host.tell, run.stall_ms)
            teller = self._teller
        teller.say(told)

    # What it promises.

    def effect(self, sink: str, *, body: Any, key: str = "") -> str:
        """Promise that `body` is delivered to the sink once this task has committed, and never if
        it does not. Effects of one sink under one key come in the order of their commits. The
        answer is how people call it.
        """
        run = self._speaker("effect()")[0][0]
        if sink not in run.sinks:
            raise UnknownSink(sink, run.sinks)
        if len(key) > KEY_MAX:
            raise CannotPromise(f"the key of an effect has at most {KEY_MAX} characters")
        entry = Entry(EFFECT, sink, key, encoded_body(sink, body))
        with self._lock:
            self._check_open()
            if key and (sink, key) in self._keys:
                raise DuplicateEffect(
                    f"this task has an effect for {sink!r} under the key {key!r} already; two "
                    "would be one delivery too many"
                )
            if len(self._effects) >= ENTRIES_MAX:
                raise CannotPromise(f"a task promises at most {ENTRIES_MAX:,} things")
            self._bytes += len(entry.body)
            if self._bytes > BODIES_BYTES_MAX:
                self._bytes -= len(entry.body)
                raise EffectTooLarge(
                    f"the effects of one task take at most {BODIES_BYTES_MAX:,} bytes together"
                )
            self._keys.add((sink, key))
            self._effects.append(entry)
            return f"{self.task_id}.{len(self._effects) - 1}"

    def stage(
        self, path: str | os.PathLike[str], mode: str = "w", **how: Any
    ) -> AbstractContextManager[IO[Any]]:
        """A file to write: `with ctx.stage("out/report.txt") as file:`. It appears under its name
        once this task has committed, whole, and never if it does not. `mode` and the rest are those
        of `open`; nothing is read, and nothing is added to.
        """
        (run, item), _, host = self._speaker("stage()")
        with self._lock:
            self._check_open()
            if self._staging is None:
                origin = Origin(run.log_id, run.job_id, item.index, item.lease_id)
                self._staging = host.workbench.staging(origin)
                self.parts.append(self._staging)
        return self._staging.file(path, mode, **how)

    def commit(self, *, result: Any = None) -> "Commit":
        """Commit now, and go on: `with ctx.commit(result=...):`.

        What stands in the block is done at most once for this task, whatever fails: by this
        attempt, after its commit was accepted. If it is not, `LeaseLost` is raised and the block is
        not entered. If the block raises, or its process dies, it is never run again by itself: an
        operator is told. The result is the one given here; what the function returns is ignored.
        """
        run = self._speaker("commit()")[0][0]
        if run.gang:
            raise CannotPromise(
                "a task of a gang cannot commit early: the results of a gang are committed "
                "together or not at all"
            )
        return Commit(self, encode_result(result, pickle=run.kind == "pickle"))

    # What the lane asks.

    def finish(self) -> tuple[Entry, ...]:
        """The task has its result: what its commit owes. Nothing more is taken. Where it has
        committed already, nothing is owed twice."""
        with self._lock:
            self._close()
            return () if self._has_asked else self._owed()

    def lose(self, error: BaseException | None = None) -> None:
        """The attempt has come to nothing: what it promised does not happen."""
        with self._lock:
            self._close()
        if not self.is_committed:
            self._discard()
        elif error is not None:
            self.log.error("raised after its commit, which stands: %s", describe(error).traceback)

    def enter(self, result: bytes) -> None:
        """Cross the line, or raise `LeaseLost`."""
        (run, item), began_ms, host = self._speaker("commit()")
        with self._lock:
            self._check_open()
            owed = (*self._owed(), Entry(BLOCK, "", "", b""))
            self._has_asked = True
        stored = None
        if len(result) > INLINE_BYTES:
            stored, result = host.keep(item.lease_id, result), b""
        ran_ms = max(0, host.clock_ms() - began_ms)
        why = host.commit(Done(run.job_id, item.index, item.lease_id, ran_ms, result, owed, stored))
        if why:
            self._discard()
            raise LeaseLost(f"task {self.task_id} was not committed: {why}")
        self.is_committed = True

    def leave(self, error: BaseException | None) -> None:
        host = self._speaker("commit()")[2]
        host.left(self._ids.lease_id, "" if error is None else describe(error).error)

    def _speaker(self, what: str) -> Seat:
        if self._seat is None:
            raise NotInTask(
                f"{what} is for a function that a worker runs. A command has its exit code and "
                "what it prints; a thread that a function has started is handed what "
                "holdfast.current() gave the function."
            )
        if os.getpid() != self._pid:
            raise NotInTask(COPY)
        return self._seat

    def _check_open(self) -> None:
        if self._has_asked:
            raise CannotPromise(COMMITTED if self.is_committed else ASKED)
        if self._is_closed:
            raise NotInTask(ENDED)

    def _owed(self) -> tuple[Entry, ...]:
        unfinished = [name for part in self.parts for name in part.unfinished]
        if unfinished:
            raise CannotPromise(f"{unfinished[0]} is still open: leave its block first")
        owed = (*self._effects, *(entry for part in self.parts for entry in part.entries()))
        if len(owed) > ENTRIES_MAX:
            raise CannotPromise(f"a task promises at most {ENTRIES_MAX:,} things, not {len(owed)}")
        return owed

    def _close(self) -> None:
        self._is_closed = True
        if self._teller is not None:
            self._teller.close()

    def _discard(self) -> None:
        for part in self.parts:
            part.discard()


class Commit:
    """What `with ctx.commit(result=...)` is: entered when the commit was accepted."""

    def __init__(self, context: Context, result: bytes) -> None:
        self._context = context
        self._result = result

    def __enter__(self) -> "Commit":
        self._context.enter(self._result)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._context.leave(error)


def context_of(seat: Seat) -> Context:
    """The context of an attempt, made when it is first asked for."""
    (run, item), _, host = seat
    with _MAKING:
        known = host.context
        if isinstance(known, Context) and known.seat is seat:
            return known
        if host.current is not seat:
            raise NotInTask(ENDED)
        ids = Ids(run.job_id, item.index, item.attempt, item.lease_id, host.worker)
        host.context = context = Context(ids, seat)
        return context

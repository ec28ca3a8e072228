"""A warm child: a process that runs the tasks of one lane, one after another.

It was exec'd, never forked, so it shares nothing with its parent but a socket and the slate. The
main thread runs user code; one thread listens to the parent, another sends results that have
waited long enough. It dies with its parent: the kernel sees to that where it can, and the end of
the socket says so everywhere.
"""

import ctypes
import faulthandler
import io
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from queue import SimpleQueue
from types import FrameType
from typing import Final

from holdfast.core.ids import LeaseId, WorkerId
from holdfast.wire.exchange import Done, Progress, Run
from holdfast.worker import frames
from holdfast.worker.bearings import Bearings
from holdfast.worker.bell import Bell
from holdfast.worker.calls import Calls, raising
from holdfast.worker.copies import Original, end_copy
from holdfast.worker.executor import Left
from holdfast.worker.frames import Broke, Doom, Ran, Withdrawn, array_of, encode, frame
from holdfast.worker.functions import MissingGuard
from holdfast.worker.lanes import Entry
from holdfast.worker.payloads import Bound
from holdfast.worker.printing import Ends, Prints
from holdfast.worker.results import INLINE_BYTES, Place, keeper_of
from holdfast.worker.seat import Promises, Seat, enter, lost, promised
from holdfast.worker.slate import NO_LEASE, Slate
from holdfast.worker.staging import Bench, Workbench
from holdfast.worker.troubles import describe

# The parent gives the child its own search path, so that both import the same code. The program's
# folder, which Python would search first, might hold a module that hides one of ours.
BOOT: Final = (
    "import sys; sys.path[:] = sys.argv.pop().split('\\n'); "
    "from holdfast.worker.child import main; main()"
)

BUNDLE_VARIABLE: Final = "HOLDFAST_BUNDLE"

_PR_SET_PDEATHSIG: Final = 1


class Ending:
    """Whether this process was asked to end. It ends at once, unless its task has looked before:
    then the task is told, and has until its parent's patience is at an end."""

    def __init__(self) -> None:
        self.is_heeded = False
        self._is_asked = False

    def is_asked(self) -> bool:
        may_heed = threading.current_thread() is threading.main_thread()
        # A task that minds the signal itself goes on doing so.
        if may_heed and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self.is_heeded = True
            signal.signal(signal.SIGTERM, self._asked)
        return self._is_asked

    def was_asked(self) -> bool:
        """The task that looked is over; the next may not look. Said before it is found out, so that
        whoever asks in between is obeyed."""
        self.is_heeded = False
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return self._is_asked

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self._is_asked = True


class Child:
    """The lane inside the child. One lock guards the socket, the slate and who owns a task."""

    def __init__(
        self,
        link: socket.socket,
        slate: Slate,
        *,
        dooms: bool,
        prints: Prints | None = None,
        worker: WorkerId,
        results: Place | None = None,
        bench: Bench | None = None,
    ) -> None:
        self._link = link
        self._bearings = Bearings(worker)
        self.keep = keeper_of(results)
        self.workbench = Workbench(bench)
        self._dooms = dooms
        self._prints = prints
        self._slate = slate
        self._lock = threading.Lock()
        self._queue: deque[Entry] = deque()
        self._unstarted: set[LeaseId] = set()
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._bell = Bell(self.flush)
        self._calls = Calls()
        self._original = Original()
        self._prepared: Run | None = None
        self._call: Bound | None = None
        self._obstacle: MissingGuard | None = None
        # The task under way, as its context sees it.
        self.worker: str = worker
        self.current: Seat | None = None
        self.context: Promises | None = None
        self._verdicts: SimpleQueue[str] = SimpleQueue()
        self._ending = Ending()

    def work(self) -> None:
        """Run tasks until the parent says leave."""
        outcome: bytes | None = None
        now_ns = time.monotonic_ns()
        while True:
            entry = self._next(outcome, now_ns)
            if entry is None:
                self._bearings.clear()
                self.flush()
                if not self._tokens.get():
                    break
                outcome, now_ns = None, time.monotonic_ns()
                continue
            outcome = self._perform(entry, now_ns)
            now_ns = time.monotonic_ns()
            self.current = None
            if self.context is not None:
                self.context = None
            if self._ending.is_heeded and self._ending.was_asked():
                # Its task was given time to end in good order, and that was all.
                if outcome is not None:
                    self._say(frames.OUTCOMES, array_of(1, outcome))
                end_with_everything_started()
        self._calls.close()

    # What the task that runs here asks, in whatever thread.

    def clock_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def is_stopping(self, lease_id: LeaseId) -> bool:
        return self._ending.is_asked()

    def tell(self, progress: Progress) -> None:
        self._say(frames.PROGRESS, encode(progress))

    def commit(self, done: Done) -> str:
        self._say(frames.COMMIT, encode(done))
        return self._verdicts.get()

    def left(self, lease_id: LeaseId, error: str) -> None:
        self._say(frames.LEFT, encode(Left(lease_id, error)))

    def _say(self, kind: int, body: bytes) -> None:
        with self._lock:
            self._flush()
            self._send(kind, body)

    def flush(self) -> None:
        """Send what stands on the slate."""
        self._bell.hush()
        with self._lock:
            self._flush()

    def listen(self, stream: io.BufferedReader) -> None:
        """Obey the parent until it is gone, and never outlive it or this thread."""
        try:
            while True:
                head = stream.read(frames.HEAD.size)
                if len(head) < frames.HEAD.size:
                    break
                length, kind = frames.HEAD.unpack(head)
                body = stream.read(length)
                if len(body) < length:
                    break
                self._obey(kind, body)
        finally:
            end_with_everything_started()

    def _obey(self, kind: int, body: bytes) -> None:
        if kind == frames.RUN:
            run = frames.decode_run(body)
            with self._lock:
                self._unstarted.update(item.lease_id for item in run.items)
                self._queue.extend((run, item) for item in run.items)
            self._tokens.put(True)
        elif kind == frames.WITHDRAW:
            asked = frames.decode_withdraw(body).lease_ids
            with self._lock:
                taken = [lease_id for lease_id in asked if lease_id in self._unstarted]
                self._unstarted.difference_update(taken)
                self._send(frames.WITHDRAWN, encode(Withdrawn(asked=asked, taken=taken)))
        elif kind == frames.LEAVE:
            self._tokens.put(False)
        elif kind == frames.VERDICT:
            self._verdicts.put(frames.decode_verdict(body).why)

    def _next(self, outcome: bytes | None, now_ns: int) -> Entry | None:
        """Write down how the last task ended and name the next one, in one step.

        A task asked back either is named on the slate already or will never begin, and the
        parent can tell which.
        """
        with self._lock:
            if outcome is not None:
                self._keep(outcome)
            while self._queue:
                entry = self._queue.popleft()
                lease_id = entry[1].lease_id
                if lease_id in self._unstarted:
                    self._unstarted.remove(lease_id)
                    self._slate.name(lease_id, now_ns)
                    return entry
            self._slate.name(NO_LEASE, 0)
            return None

    def _keep(self, outcome: bytes) -> None:
        if not self._slate.add(outcome):
            self._flush()
            if not self._slate.add(outcome):
                # Larger than the slate: it leaves before the next task can do any harm.
                self._send(frames.OUTCOMES, array_of(1, outcome))
                return
        if self._bell.is_quiet:
            self._bell.ring_soon()

    def _flush(self) -> None:
        count, encoded = self._slate.unsent()
        if count:
            self._send(frames.OUTCOMES, array_of(count, encoded))
            self._slate.clear()

    def _send(self, kind: int, body: bytes) -> None:
        """Under the lock, so that frames do not mix."""
        try:
            self._link.sendall(frame(kind, body))
        except OSError:
            # Nobody is there to hear it.
            end_with_everything_started()

    def _perform(self, entry: Entry, began_ns: int) -> bytes | None:
        run, item = entry
        if run is not self._prepared:
            # Code that is loaded here stays for tasks to come; what it reads is about none of them.
            self._bearings.clear()
            self._call, self._prepared = self._prepare(run), run
        if self._call is None:
            self._refuse(item.lease_id)
            return None
        self.current = seat = (entry, began_ns // 1_000_000, self)
        enter(seat)
        try:
            self._bearings.take(run, item)
            result = self._call(item)
            if self._original.is_copy:
                end_copy(None)
            stored = None
            if len(result) > INLINE_BYTES:
                stored, result = self.keep(item.lease_id, result), b""
            owed = () if self.context is None else promised(self, seat)
            ran_us = (time.monotonic_ns() - began_ns) // 1000
            return encode(Ran(item.lease_id, ran_us, result, self._printed(), owed, stored))
        except BaseException as error:  # noqa: BLE001 - it ends this attempt alone
            trouble = describe(error)
            if self._original.is_copy:
                end_copy(trouble)
            lost(self, seat, error)
            if self._ending.is_heeded and self._ending.is_asked():
                # It knew that it must end, and so did not come to its own: nobody's fault.
                return None
            ran_us = (time.monotonic_ns() - began_ns) // 1000
            told = (trouble.error, trouble.traceback, trouble.exit_code)
            return encode(Broke(item.lease_id, ran_us, *told, self._printed()))

    def _printed(self) -> Ends | None:
        ends = None if self._prints is None else self._prints.since()
        if ends is not None:
            self._slate.mark(ends)
        return ends

    def _prepare(self, run: Run) -> Bound | None:
        try:
            return self._calls.prepare(run.kind, run.target)
        except MissingGuard as error:
            if not self._dooms:
                return raising(error)
            self._obstacle = error
            return None

    def _refuse(self, lease_id: LeaseId) -> None:
        kind, message = type(self._obstacle).__name__, str(self._obstacle)
        doom = encode(Doom(lease_id=lease_id, kind=kind, message=message))
        with self._lock:
            self._send(frames.DOOM, doom)


def end_with_everything_started() -> None:
    """Kill this process and its group, which holds nothing but what tasks have started."""
    os.killpg(os.getpgrp(), signal.SIGKILL)


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies, where the kernel knows how."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before we asked.
        os._exit(1)


def listen_to_signals() -> None:
    """A parent may ignore or block signals, and an exec'd child would go on doing so."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def search_first(bundle: str) -> None:
    """Find code in this folder before anywhere else. Only now that all of ours is loaded, because
    a bundle may have a module of the same name; and nothing is written there, because others use
    the same folder."""
    sys.path.insert(0, bundle)
    sys.dont_write_bytecode = True
    os.environ[BUNDLE_VARIABLE] = bundle


def main() -> None:
    """Started by `WarmChild` with the parent's pid and three descriptors."""
    parent, link_fd, slate_fd, crash_fd = map(int, sys.argv[1:5])
    die_with(parent)
    listen_to_signals()
    for descriptor in (link_fd, slate_fd, crash_fd):
        # A program started by a task must not keep the socket open after our death.
        os.set_inheritable(descriptor, False)
    faulthandler.enable(file=crash_fd, all_threads=False)
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            # What a task printed is out when the task is killed.
            output.reconfigure(line_buffering=True)
    link = socket.socket(fileno=link_fd)
    stream = link.makefile("rb", buffering=1 << 16)
    length, _ = frames.HEAD.unpack(stream.read(frames.HEAD.size))
    setup = frames.decode_setup(stream.read(length))
    sys.argv[:] = map(os.fsdecode, setup.argv)
    if setup.bundle:
        search_first(setup.bundle)
    prints = Prints() if setup.captured else None
    slate = Slate(slate_fd)
    if prints is not None:
        slate.mark(prints.ends)
    worker = WorkerId(setup.worker)
    child = Child(
        link, slate, dooms=setup.dooms, prints=prints, worker=worker, results=setup.results,
        bench=setup.bench,
    )
    threading.Thread(
        target=child.listen, args=(stream,), name="holdfast-listen", daemon=True
    ).start()
    link.sendall(frame(frames.READY))
    child.work()

"""The warden: a process of its own that starts commands, listens to them, and outlives nobody.

The worker may be killed or stopped at any moment, and then nobody else could end what it started:
a signal tied to a parent's death reaches one process, never what that one started. The warden sees
the end of its socket, kills every group it made, and adopts and kills what had left its group. It
also ends by itself what must not outlive its lease, though the worker be frozen, and does both for
groups that the worker started itself. It has one thread and waits for nothing but its selector.
Should it die first, the kernel kills the commands.
"""

import ctypes
import os
import resource
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from holdfast.core.ids import LeaseId
from holdfast.worker.cgroups import MemoryGroup, MemoryGroups
from holdfast.worker.errands import (
    Begun,
    Ended,
    Forget,
    Guard,
    Launch,
    Letters,
    Until,
    decode_errand,
    framed,
)
from holdfast.worker.outputs import Capture
from holdfast.worker.processtree import adopt_orphans, began_at, children_of, lease_of

# The worker gives its own search path, so that both run the same code.
BOOT: Final = (
    "import sys; sys.path[:] = sys.argv.pop().split('\\n'); "
    "from holdfast.worker.warden import main; main()"
)

_PR_SET_PDEATHSIG: Final = 1
_CHUNK: Final = 1 << 16
_LAST_CHUNKS_MAX: Final = 64
_FAREWELL_S: Final = 10.0


class Ward:
    """One command under way, and what it prints."""

    def __init__(
        self,
        launch: Launch,
        process: subprocess.Popen[bytes],
        stdout: Capture,
        stderr: Capture,
        group: MemoryGroup | None,
    ) -> None:
        self.lease_id = launch.lease_id
        self.group = group
        self.must_end = launch.must_end
        self.process = process
        self.since_ns = time.monotonic_ns()
        self.halted = False
        # When it is killed outright, on the monotonic clock.
        self.kill_at: float | None = None
        self._said_last = (stderr, stdout) if launch.is_service else (stderr,)
        self.captures: dict[IO[bytes], Capture] = {}
        for stream, capture in ((process.stdout, stdout), (process.stderr, stderr)):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self.captures[stream] = capture

    def signal(self, number: signal.Signals) -> None:
        """To the whole group. The leader is not reaped yet, so its number is nobody else's."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def halt(self, grace_s: float) -> None:
        kill_at = time.monotonic() + grace_s
        self.kill_at = kill_at if self.kill_at is None else min(self.kill_at, kill_at)
        if not self.halted:
            self.halted = True
            self.signal(signal.SIGTERM)
            # One that was stopped would not hear it.
            self.signal(signal.SIGCONT)

    def last_words(self) -> str:
        return next(filter(None, (capture.last_words() for capture in self._said_last)), "")

    def has_exited(self) -> bool:
        """Whether the command itself has ended. It is not reaped by looking."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, flags) is not None


class Guarded:
    """A group that the worker itself started. Its leader is told from another process of the same
    number by the moment it began."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.must_end = False
        self.halted = False
        self._began = began_at(pid)

    def signal(self, number: signal.Signals) -> None:
        """A group whose leader is gone keeps its number while anybody is in it."""
        if began_at(self.pid) in (self._began, None):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


class Warden:
    def __init__(self, link: socket.socket, groups: MemoryGroups | None) -> None:
        self._link = link
        self._memory = groups
        self._letters = Letters()
        self._wards: dict[LeaseId, Ward] = {}
        self._guarded: dict[int, Guarded] = {}
        self._until: Until | None = None
        self._is_over = False
        self._selector = selectors.DefaultSelector()
        link.setblocking(False)
        self._selector.register(link, selectors.EVENT_READ, self._listen)
        awake, bell = os.pipe()
        for descriptor in (awake, bell):
            os.set_blocking(descriptor, False)
        self._awake = awake
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _hear)
        self._selector.register(awake, selectors.EVENT_READ, self._look_after_the_dead)

    def watch(self) -> None:
        """Until the worker is gone, and then until everything it started is."""
        while not self._is_over:
            for key, _ in self._selector.select(self._patience()):
                act: Callable[[], None] = key.data
                act()
            self._watch_the_clock()
        for group in self._groups():
            group.signal(signal.SIGKILL)
        for ward in self._wards.values():
            self._leave(ward.group)
        give_up_at = time.monotonic() + _FAREWELL_S
        while self._sweep({}) and time.monotonic() < give_up_at:
            time.sleep(0.01)
        if self._memory is not None:
            self._memory.sweep()

    def _groups(self) -> list[Ward | Guarded]:
        return [*self._wards.values(), *self._guarded.values()]

    # What the worker says.

    def _listen(self) -> None:
        try:
            chunk = self._link.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._is_over = True
            return
        self._letters.add(chunk)
        for body in self._letters.bodies():
            errand = decode_errand(body)
            if isinstance(errand, Launch):
                self._launch(errand)
            elif isinstance(errand, Until):
                self._until = errand
            elif isinstance(errand, Guard):
                known = self._guarded.setdefault(errand.pid, Guarded(errand.pid))
                known.must_end = errand.must_end
            elif isinstance(errand, Forget):
                self._guarded.pop(errand.pid, None)
            elif errand.lease_id in self._wards:
                self._wards[errand.lease_id].halt(errand.grace_ms / 1_000)

    def _launch(self, launch: Launch) -> None:
        if launch.must_end and self._is_past():
            # It waited while nobody could say whether its lease still holds.
            self._tell(Ended(launch.lease_id, -signal.SIGTERM, 0, True, "", ""))
            return
        folder = Path(os.fsdecode(launch.outputs))
        group = self._group_for(launch)
        try:
            stdout, stderr = Capture(folder / "stdout"), Capture(folder / "stderr")
            process = subprocess.Popen(
                launch.argv,
                env=launch.env,
                cwd=launch.cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                # This process has one thread, so nothing can be half-way when it is copied.
                preexec_fn=_bounds(launch.memory_bytes, os.getpid(), group),  # noqa: PLW1509
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._leave(group)
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self._tell(Ended(launch.lease_id, None, 0, False, why, ""))
            return
        ward = Ward(launch, process, stdout, stderr, group)
        self._wards[launch.lease_id] = ward
        for stream in ward.captures:
            self._selector.register(stream, selectors.EVENT_READ, self._reader(ward, stream))
        if launch.is_service:
            self._tell(Begun(launch.lease_id, process.pid))

    def _group_for(self, launch: Launch) -> MemoryGroup | None:
        """Where its memory is counted; None where the system does not let us."""
        if self._memory is None or not launch.memory_bytes:
            return None
        try:
            return self._memory.open(f"attempt-{launch.lease_id}", launch.memory_bytes)
        except OSError:
            return None

    def _leave(self, group: MemoryGroup | None) -> None:
        if group is not None and self._memory is not None:
            self._memory.close(group)

    # What commands do.

    def _reader(self, ward: Ward, stream: IO[bytes]) -> Callable[[], None]:
        def read() -> None:
            # A command buried in this very turn has closed it.
            if not stream.closed and not self._read(ward, stream):
                self._selector.unregister(stream)

        return read

    def _read(self, ward: Ward, stream: IO[bytes]) -> bool:
        """Take in what was printed. False when nothing can come any more."""
        try:
            chunk = os.read(stream.fileno(), _CHUNK)
        except BlockingIOError:
            return True
        ward.captures[stream].add(chunk)
        return bool(chunk)

    def _look_after_the_dead(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._awake, _CHUNK)
        for ward in [ward for ward in self._wards.values() if ward.has_exited()]:
            self._bury(ward)
        self._sweep(self._wards)

    def _bury(self, ward: Ward) -> None:
        """The command has ended, and with it everything in its group."""
        ward.signal(signal.SIGKILL)
        code = ward.process.wait()
        ran_ms = (time.monotonic_ns() - ward.since_ns) // 1_000_000
        for stream, capture in ward.captures.items():
            # What is in the pipe was said in time; who left the group may hold it open for ever.
            for _ in range(_LAST_CHUNKS_MAX):
                if not _has_more(stream) or not self._read(ward, stream):
                    break
            with suppress(KeyError):
                self._selector.unregister(stream)
            stream.close()
            capture.close()
        del self._wards[ward.lease_id]
        was_struck = ward.group is not None and ward.group.was_struck()
        self._leave(ward.group)
        last_words = ward.last_words()
        self._tell(Ended(ward.lease_id, code, ran_ms, ward.halted, "", last_words, was_struck))

    def _sweep(self, living: dict[LeaseId, Ward]) -> int:
        """Reap what we adopted, and kill what outlived its attempt; how many there still are."""
        leaders = {ward.process.pid for ward in living.values()}
        left = 0
        for pid in children_of(os.getpid()):
            if pid in leaders:
                continue
            left += 1
            if lease_of(pid) in living:
                continue
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        return left

    # Time.

    def _watch_the_clock(self) -> None:
        now = time.monotonic()
        until = self._until
        for ward in self._wards.values():
            if until is not None and ward.must_end and now * 1_000 >= until.ends_ms:
                ward.halt(max(0.0, until.kill_ms / 1_000 - now))
            if ward.kill_at is not None and now >= ward.kill_at:
                ward.signal(signal.SIGKILL)
                ward.kill_at = now + 60

        for guarded in self._guarded.values():
            if until is None or not guarded.must_end or now * 1_000 < until.ends_ms:
                guarded.halted = False
            elif now * 1_000 >= until.kill_ms:
                guarded.signal(signal.SIGKILL)
            elif not guarded.halted:
                guarded.halted = True
                guarded.signal(signal.SIGTERM)

    def _is_past(self) -> bool:
        return self._until is not None and time.monotonic() * 1_000 >= self._until.ends_ms

    def _patience(self) -> float | None:
        now = time.monotonic()
        times = [ward.kill_at for ward in self._wards.values() if ward.kill_at is not None]
        if self._until is not None and any(group.must_end for group in self._groups()):
            ahead = (self._until.ends_ms / 1_000, self._until.kill_ms / 1_000)
            times += [moment for moment in ahead if moment > now]
        return max(0.0, min(times) - now) if times else None

    def _tell(self, news: Begun | Ended) -> None:
        """The worker reads all the time; one that is frozen makes us wait only where its buffer is
        full, and that is larger than all it can be told."""
        self._link.setblocking(True)
        try:
            self._link.sendall(framed(news))
        except OSError:
            self._is_over = True
        finally:
            self._link.setblocking(False)


def _hear(number: int, frame: object) -> None:
    """The wakeup descriptor says to the selector that something happened."""


def _has_more(stream: IO[bytes]) -> bool:
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    return bool(poll.poll(0))


def _bounds(memory_bytes: int, parent: int, group: MemoryGroup | None) -> Callable[[], None]:
    """What holds for a command before it begins: it dies with us, and how much it may take."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None

    def apply() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        if group is not None:
            group.enter()
        elif memory_bytes:
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))

    return apply


def main() -> None:
    """Started by `CommandExecutor` with the descriptor of its socket and, where there is one, the
    control group it may divide."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # It ends when the worker does, and not before: somebody must see to the commands. What is
        # heard and not heeded here has its usual effect in a command; what is ignored has not.
        signal.signal(number, _hear)
    adopt_orphans()
    link = socket.socket(fileno=int(sys.argv[1]))
    link.set_inheritable(False)
    groups = MemoryGroups(Path(sys.argv[2])) if sys.argv[2] else None
    Warden(link, groups).watch()

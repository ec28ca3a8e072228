"""Scribes for whoever breaks their disk or kills them, and the judge of what they leave."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from os import kill
from pathlib import Path
from types import TracebackType
from typing import IO, Final

import msgspec
import psutil

from holdfast.coordinator.history import last_end, walk_ends
from holdfast.coordinator.inspect import Told, told_by
from holdfast.coordinator.recovery import recover
from holdfast.core.freeze import fingerprint
from holdfast.core.ids import Index, Position
from holdfast.core.invariants import Watch, check
from holdfast.core.record import decode_record
from holdfast.core.state import State
from holdfast.testing.log_stories import Lost
from holdfast.testing.patience import until
from holdfast.testing.scribe import Order, Promise, WrittenWorld
from holdfast.wal import FileLog, HistoryGone, read_folder

STOP_S: Final = 60.0
IS_STOPPED: Final = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)


class Scribes:
    """One at a time. Each is a copy of one program, which is started once."""

    def __init__(self, said: Path) -> None:
        self._said = said
        self._process: subprocess.Popen[bytes] | None = None
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "Scribes":
        self._file = self._said.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.testing.scribe"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._file,
        )  # fmt: skip
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process, file = self._here()
        if process.stdin is not None:
            process.stdin.close()
        process.wait(STOP_S)
        if process.stdout is not None:
            process.stdout.close()
        file.close()

    def begin(self, order: Order) -> int:
        """Its process id. One that is held has stopped when this returns."""
        process, _ = self._here()
        if process.stdin is None:
            raise RuntimeError("nobody listens")
        process.stdin.write(msgspec.json.encode(order) + b"\n")
        process.stdin.flush()
        pid = self._heard()
        if order.is_held:
            wait_stopped(pid)
        return pid

    def end(self) -> int:
        """How the one that was begun last has ended: 0, or the signal as a negative number."""
        code = self._heard()
        if code not in (0, -signal.SIGKILL):
            raise Lost(f"a scribe ended with {code}: {self.said()[-2_000:]}")
        return code

    def said(self) -> str:
        return self._said.read_text(encoding="utf-8", errors="replace")

    def _heard(self) -> int:
        process, _ = self._here()
        line = process.stdout.readline() if process.stdout is not None else b""
        if not line:
            raise RuntimeError(f"the scribes are gone: {self.said()[-2_000:]}")
        return int(line)

    def _here(self) -> tuple["subprocess.Popen[bytes]", IO[bytes]]:
        if self._process is None or self._file is None:
            raise RuntimeError("the scribes are not here")
        return self._process, self._file


def wait_stopped(pid: int) -> None:
    """Until this process does nothing any more, and nothing of it is under way in the kernel."""
    process = psutil.Process(pid)
    until(lambda: process.status() in IS_STOPPED)


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """It stops in the middle of whatever it does, and is killed there in the end."""
    kill(pid, signal.SIGSTOP)
    try:
        wait_stopped(pid)
        yield
    finally:
        kill(pid, signal.SIGKILL)


def promises_in(notes: Path) -> list[Promise]:
    if not notes.exists():
        return []
    return [msgspec.json.decode(line, type=Promise) for line in notes.read_bytes().splitlines()]


def judge(folder: Path, promises: list[Promise]) -> Promise:
    """The log opens, has all that was promised, and goes on; what is promised from here on."""
    log = FileLog.open(folder)
    try:
        _judge_promises(log, folder, promises)
        _judge_replay(log, folder)
    finally:
        log.close()
    world = WrittenWorld(folder)
    promise = world.write()
    world.file.close()
    if promise.position <= log.last:
        raise Lost("the log opened but did not go on")
    return promise


def lost_in(folder: Path, promises: list[Promise]) -> int:
    """How many promises a folder breaks that may be worse than torn: nothing is mended."""
    reader = read_folder(folder, lenient=True)
    return sum(promise.position > reader.last for promise in promises)


def untold(log: FileLog, state: State) -> list[str]:
    """The tasks of jobs in memory whose earlier attempts nobody can tell any more."""
    missing: list[int] = []

    def told_at(position: int) -> Told:
        try:
            return told_by(*log.record(position), position)
        except HistoryGone:
            missing.append(position)
            raise

    troubles: list[str] = []
    for job in state.jobs.values():
        for index in map(Index, range(job.count)):
            for _ in walk_ends(told_at, job.job_id, index, last_end(job, index)):
                pass
            if missing:
                troubles.append(f"{job.job_id}/{index} ended at {missing.pop()}, which is gone")
    return troubles


def _judge_promises(log: FileLog, folder: Path, promises: list[Promise]) -> None:
    for promise in promises:
        if promise.position > log.last:
            raise Lost(f"the log ends at {log.last}, and {promise.position} was promised")
        if promise.position >= log.oldest:
            chain = log.chain_after(promise.position)
            if chain is None or chain.hex() != promise.chain:
                raise Lost(f"another history ends at {promise.position}")
    if promises:
        state = recover(log, folder, until=promises[-1].position)
        if fingerprint(state) != promises[-1].state_hash:
            raise Lost(f"another state comes of the log at {promises[-1].position}")


def _judge_replay(log: FileLog, folder: Path) -> None:
    """From a snapshot and the tail comes what comes of the whole log, and nothing is broken."""
    state = recover(log, folder)
    troubles = [str(violation) for violation in check(state)]
    troubles += untold(log, state)
    if log.oldest == 1 and log.last:
        if fingerprint(recover(log, None)) != fingerprint(state):
            raise Lost("a snapshot and the tail tell another story than the log")
        watch, position = Watch(), 0
        for frame in log.read():
            for data in frame.records:
                position += 1
                troubles += map(str, watch.feed(Position(position), decode_record(data)))
    if troubles:
        raise Lost(troubles[0])

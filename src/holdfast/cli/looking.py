"""What a doctor sees for itself: a folder with its history, and what this machine can do."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from holdfast.cli.examining import NAMED, parked_finding
from holdfast.cli.finding import BAD, GOOD, POOR, Finding, good
from holdfast.cli.folders import FromFolder
from holdfast.cli.output import counted, typed
from holdfast.cli.spans import size, span
from holdfast.coordinator.inspect import LogDamaged, NewerFormat, NoLog, open_folder
from holdfast.coordinator.owning import drift_of, owner_of
from holdfast.coordinator.results import contents_of
from holdfast.coordinator.verify import verify_folder
from holdfast.core.errors import OperatingError
from holdfast.core.owed import PARKED
from holdfast.wire.errors import ResultLost
from holdfast.wire.wanted import WantedEffects

FREE_BYTES: Final = 1024**3
FREE_BYTES_LEAST: Final = 64 * 1024**2
SYNCS: Final = 20
SYNC_MS: Final = 20.0
DRIFT_MS: Final = 2_000
CAP_BYTES: Final = 256 * 1024**2
CAP_S: Final = 30.0
DENIED: Final = 7
HUNGRY: Final = (
    "import mmap, sys\n"
    "try:\n"
    "    mmap.mmap(-1, 1 << 30)\n"
    "except (OSError, MemoryError):\n"
    f"    sys.exit({DENIED})\n"
)
"""Asks for more than it may have, and uses none of it."""


def examine_machine() -> Iterator[Finding]:
    """What tasks may rely on here."""
    yield _memory_cap()


def _memory_cap() -> Finding:
    """Whether a process here is kept from taking more memory than it was given: one that tries to
    is started and watched."""
    try:
        done = subprocess.run(
            [sys.executable, "-S", "-E", "-c", HUNGRY],
            preexec_fn=_capped,
            capture_output=True,
            timeout=CAP_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("memory cap", POOR, f"could not be tried: {error}", "ulimit -v")
    if done.returncode == DENIED:
        return good("memory cap", "a task that takes more memory than it asked for is ended")
    told = "tasks can take more memory than they asked for: limits do not hold here"
    return Finding("memory cap", POOR, told, "ulimit -v")


def _capped() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (CAP_BYTES, CAP_BYTES))


def examine_folder(path: Path) -> Iterator[Finding]:
    """The disk under a folder, who owns it, and whether its history is whole."""
    if not path.is_dir():
        serve = f"holdfast serve --data {typed(path)}"
        yield Finding("data", BAD, f"there is no folder {path}", serve)
        return
    yield _space(path)
    yield _disk(path)
    yield _owner(path)
    history = _looked_into(path, "history", _history)
    yield history
    for name, look in (("results", _results), ("effects", _effects), ("drift", _drift)):
        found = _looked_into(path, name, look)
        # What cannot be looked at for the same reason is told once.
        is_same = found.state != GOOD and found.told == history.told
        yield replace(found, told=f"not looked at: see {history.name}") if is_same else found


def _space(path: Path) -> Finding:
    free = shutil.disk_usage(path).free
    state = GOOD if free >= FREE_BYTES else POOR if free >= FREE_BYTES_LEAST else BAD
    told = f"{size(free)} are free in {path}"
    return Finding("space", state, told, "" if state == GOOD else f"df -h {typed(path)}")


def _disk(path: Path) -> Finding:
    try:
        took = sorted(_sync_times(path))
    except OSError as error:
        told = f"{path} cannot be written: {error.strerror}"
        return Finding("disk", BAD, told, f"ls -ld {typed(path)}")
    usual, worst = took[len(took) // 2], took[-1]
    told = f"a sync takes {usual:.1f} ms, at worst {worst:.1f} ms"
    if usual > SYNC_MS:
        return Finding("disk", POOR, f"{told}: every answer waits that long", "holdfast bench")
    return good("disk", told)


def _sync_times(path: Path) -> list[float]:
    """How long the disk takes to keep a little more of a file, in milliseconds."""
    took = []
    with tempfile.TemporaryFile(dir=path) as file:
        for _ in range(SYNCS):
            file.write(bytes(4_096))
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1_000)
    return took


def _owner(path: Path) -> Finding:
    """Who may write here now. Nobody is disturbed by being looked at."""
    owner = owner_of(path)
    return good("owner", owner if owner else "nobody has it open; whoever opens it owns it")


def _looked_into(path: Path, name: str, look: Callable[[Path], Finding]) -> Finding:
    """What a look at the log finds, or why there is nothing to see."""
    verify = f"holdfast log verify {typed(path)}"
    try:
        return look(path)
    except NoLog:
        serve = f"holdfast serve --data {typed(path)}"
        return Finding(name, POOR, f"there is no log in {path} yet", serve)
    except (LogDamaged, NewerFormat, OperatingError) as error:
        return Finding(name, BAD, str(error), verify)


def _history(path: Path) -> Finding:
    """Every byte, every link, every invariant."""
    found = verify_folder(path)
    verify = f"holdfast log verify {typed(path)}"
    if not found.is_good:
        first = found.violations[0] if found.violations else found.flaws[0].why
        count = len(found.flaws) + len(found.violations)
        told = f"{counted(count, 'thing')} wrong, the first: {first}"
        return Finding("history", BAD, told, verify)
    return good("history", f"whole up to position {found.last}; every invariant holds")


def _results(path: Path) -> Finding:
    """Every byte of every large result that a job still has."""
    contents = contents_of(path)
    lost: list[str] = []
    count = taken = 0
    for stored in open_folder(path).state.stored_results():
        count, taken = count + 1, taken + stored.size
        try:
            contents.check(stored)
        except ResultLost as error:
            lost.append(error.why)
    if lost:
        told = f"{len(lost)} of {count} large results are lost, the first: {lost[0]}"
        return Finding("results", BAD, told, f"ls -lR {typed(contents.folder)}")
    return good("results", f"{count} large ones, {size(taken)}, all as they were stored")


def _effects(path: Path) -> Finding:
    """What is parked waits for a person, and its task with it."""
    source = FromFolder(path)
    found = source.effects(WantedEffects(states=frozenset({PARKED})), NAMED)
    return parked_finding(found.views, found.total, source.options)


def _drift(path: Path) -> Finding:
    """How far the wall clock has left the clock that leases run on, and whether the log is ahead
    of it."""
    drift = drift_of(path, time.time_ns() // 1_000_000)
    if drift.ahead_ms > DRIFT_MS:
        told = f"the last record is {span(drift.ahead_ms)} later than the clock of this machine"
        return Finding("drift", POOR, told, "timedatectl status")
    if abs(drift.drift_ms) > DRIFT_MS:
        told = f"the wall clock was moved by {span(abs(drift.drift_ms))} since the log was opened"
        return Finding("drift", POOR, told, "timedatectl status")
    return good("drift", "the wall clock and the log's agree")

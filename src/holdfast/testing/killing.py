"""Kill a real program again and again, let it finish, and count what is left.

The moments come from the caller's dice: after so many lines of its output, and a little later. The
counts are taken from the log alone and held against what the program wrote down for itself.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

from msgspec import Struct

from holdfast.coordinator.inspect import look_into
from holdfast.core import events as e
from holdfast.testing.killed import MAP_KEY
from holdfast.worker.payloads import decode_result

LINGER_S = 0.5
MARKS = 4
PATIENCE_S = 120


class Tally(Struct, frozen=True):
    """What the log holds when all is over. Good: lost, twice, wrong and doubled are nothing."""

    kills: int
    acknowledged: int
    committed: int
    lost: int
    twice: int
    wrong: int
    doubled_jobs: int
    cut_short: int

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.twice or self.wrong or self.doubled_jobs)


def kill_until_done(
    folder: Path, dice: Random, *, kills: int, executor: str = "threads", count: int = 200
) -> Tally:
    """Kill the program `kills` times, then let it run to its end, and count."""
    state, notes = folder / "state", folder / "notes.txt"
    killed = 0
    while killed < kills:
        program = _start(state, notes, executor, count)
        try:
            killed += _kill_somewhere(program, dice)
        finally:
            _end(program)
        if program.returncode == 0:
            # It was done before its time came: what is left of the kills meets an empty table.
            state = _clear(folder, state, notes, killed)
    program = _start(state, notes, executor, count)
    try:
        out, error = program.communicate(timeout=PATIENCE_S)
    finally:
        _end(program)
    if program.returncode or not out.endswith("left\n"):
        raise AssertionError(f"the program ended with {program.returncode}: {error[-2_000:]}")
    return tally(state, notes, killed)


def tally(state: Path, notes: Path, kills: int) -> Tally:
    """Lay the log beside the notes."""
    commits: Counter[tuple[str, int]] = Counter()
    results: dict[tuple[str, int], int] = {}
    keys: dict[str, str] = {}
    jobs_of_key: Counter[str] = Counter()
    cut_short = 0
    for told in look_into(state).records():
        for event in told.record.events:
            if isinstance(event, e.JobSubmitted):
                keys[event.job_id] = event.key
                jobs_of_key[event.key] += 1
            elif isinstance(event, e.TasksCompleted):
                for commit in event.commits:
                    commits[event.job_id, commit.index] += 1
                    results[event.job_id, commit.index] = decode_result(commit.result)
            elif isinstance(event, e.AttemptsReturned):
                cut_short += len(event.ends)
    wanted = _acknowledged(notes)
    expected = {task: _expected(keys[task[0]], task[1]) for task in commits}
    return Tally(
        kills=kills,
        acknowledged=len(wanted),
        committed=len(commits),
        lost=len(wanted - commits.keys()),
        twice=sum(times > 1 for times in commits.values()),
        wrong=sum(results[task] != value for task, value in expected.items()),
        doubled_jobs=sum(times > 1 for times in jobs_of_key.values()),
        cut_short=cut_short,
    )


def _expected(key: str, index: int) -> int:
    number = index if key == MAP_KEY else int(key.removeprefix("single "))
    return number * number


def _acknowledged(notes: Path) -> set[tuple[str, int]]:
    wanted: set[tuple[str, int]] = set()
    for line in notes.read_text(encoding="utf-8").splitlines():
        kind, job_id, number = line.split(" ")
        wanted.update((job_id, index) for index in range(int(number) if kind == "map" else 1))
    return wanted


def _start(
    state: Path, notes: Path, executor: str, count: int
) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "holdfast.testing.killed"]
    return subprocess.Popen(
        [*command, str(state), str(notes), executor, str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _kill_somewhere(program: "subprocess.Popen[str]", dice: Random) -> int:
    """See it start or open, linger, and strike. 0 where the program was faster."""
    for _ in range(dice.randrange(MARKS)):
        if not (program.stdout and program.stdout.readline()):
            break
    try:
        program.wait(dice.random() * LINGER_S)
    except subprocess.TimeoutExpired:
        os.kill(program.pid, signal.SIGKILL)
    code = program.wait()
    if code not in (0, -signal.SIGKILL):
        said = program.stderr.read() if program.stderr else ""
        raise AssertionError(f"the program ended by itself with {code}: {said[-2_000:]}")
    return int(code != 0)


def _end(program: "subprocess.Popen[str]") -> None:
    program.kill()
    program.wait()
    for stream in (program.stdout, program.stderr):
        if stream is not None:
            stream.close()


def _clear(folder: Path, state: Path, notes: Path, killed: int) -> Path:
    """Count what a finished round left, and begin another in a folder of its own."""
    found = tally(state, notes, killed)
    if not found.is_good:
        raise AssertionError(f"after {killed} kills: {found}")
    notes.unlink()
    return folder / f"state-{killed}"

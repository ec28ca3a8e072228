"""`holdfast demo --crash`: a program is killed in the middle of a job, and nothing is lost.

The child is a real process and the signal is SIGKILL: it gets no chance to tidy up. It is killed by
how far it is, never by the clock. In the end the log is read and compared with what the child
wrote down for itself; the counts that are printed are counted, not assumed.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.cli.errors import REFUSED, Trouble
from holdfast.cli.folders import FromFolder
from holdfast.cli.output import emit, typed
from holdfast.cli.progress import Meter, bar
from holdfast.cli.tables import jobs_table
from holdfast.cli.unwinding import uninterrupted
from holdfast.coordinator.inspect import Folder, look_into
from holdfast.core import events as e
from holdfast.core.attempt import DEATHS
from holdfast.wire.wanted import Wanted
from holdfast.worker.payloads import decode_result

ITEMS: Final = 400
KILLS: Final = 3
IN_HAND: Final = 20


class Count(Struct, frozen=True):
    """What the log and the child's own notes say when they are laid side by side."""

    acknowledged: int
    committed: int
    lost: int
    twice: int
    different: int
    cut_short: int

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.twice or self.different)


def crash_demo(folder: Path, *, keep: bool) -> int:
    """Kill, restart, count. 0 where nothing was lost and nothing committed twice."""
    data, notes = folder / "state", folder / "diary.txt"
    emit(
        f"A child process runs a job of {ITEMS} items. It will be killed with SIGKILL {KILLS} "
        "times,\nin the middle of its work, and simply started again.\n\n"
    )
    with bar("crash", ITEMS) as advance:
        meter = Meter(advance)
        for number in range(1, KILLS + 1):
            # A little before the next items come, so that the kill meets work in hand.
            _kill_at(data, notes, ITEMS * number // (KILLS + 1) - IN_HAND, meter)
        _finish(data, notes, meter)
    count = compare(look_into(data), notes)
    source = FromFolder(data)
    emit(f"\n$ holdfast job list --data {typed(data)}\n")
    emit(jobs_table(source.jobs(Wanted()).views, source.now()))
    emit(_told(count))
    if keep:
        emit(
            f"\nThe log is kept. See what the kills did to the attempts:\n"
            f"    holdfast transactions --data {typed(data)} --limit 0 | grep worker_failed\n"
            f"    holdfast log verify {typed(data)}\n"
        )
    else:
        emit("\n`holdfast demo --crash --keep` keeps the folder, so that you can look yourself.\n")
    return 0 if count.is_good else 1


def _kill_at(data: Path, notes: Path, goal: int, meter: Meter) -> None:
    with _running(data, notes) as child:
        _follow(child, meter, goal)
        child.kill()
        child.wait()
    position = look_into(data).last
    _say(f"killed process {child.pid} ({meter.done}/{ITEMS} done); {position} records are on disk")


def _finish(data: Path, notes: Path, meter: Meter) -> None:
    with _running(data, notes) as child:
        _follow(child, meter, ITEMS)
        if child.wait() != 0:
            raise _failed(child)
    _say(f"process {child.pid} went on to the end ({meter.done}/{ITEMS} done)")


@contextmanager
def _running(data: Path, notes: Path) -> Iterator["subprocess.Popen[str]"]:
    """The child, which does not outlive this: it would make anew the folder that goes with us."""
    with ExitStack() as stack:
        with uninterrupted():
            child = stack.enter_context(_start(data, notes))
            stack.callback(child.kill)
        yield child


def _start(data: Path, notes: Path) -> "subprocess.Popen[str]":
    root = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH")
    path = root if not known else f"{root}{os.pathsep}{known}"
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli.crash_child", str(data), str(notes), str(ITEMS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def _follow(child: "subprocess.Popen[str]", meter: Meter, goal: int) -> None:
    """Read what the child says until it has come as far as `goal`. A child that was started again
    tells from the start."""
    for line in child.stdout or ():
        meter.reached(int(line))
        if int(line) >= goal:
            return
    raise _failed(child)


def _failed(child: "subprocess.Popen[str]") -> Trouble:
    said = (child.stderr.read() if child.stderr else "").strip().splitlines()
    return Trouble(
        f"the child ended by itself with code {child.wait()}: {said[-1] if said else 'no word'}. "
        "`holdfast demo` shows whether plain jobs run here.",
        REFUSED,
    )


def compare(folder: Folder, notes: Path) -> Count:
    """Lay the log beside what the child was told.

    Lost: an item that was acknowledged and has no commit. Different: a result the child was told
    of that the log does not hold. Cut short: attempts that died with their process, made again.
    """
    commits: Counter[int] = Counter()
    results: dict[int, int] = {}
    cut_short = 0
    for told in folder.records():
        for event in told.record.events:
            if isinstance(event, e.TasksCompleted):
                for commit in event.commits:
                    commits[commit.index] += 1
                    results[commit.index] = decode_result(commit.result)[1]
            elif isinstance(event, e.AttemptsReturned):
                cut_short += sum(end.reason in DEATHS for end in event.ends)
    items, told_results = read_notes(notes)
    return Count(
        acknowledged=items,
        committed=len(commits),
        lost=sum(index not in commits for index in range(items)),
        twice=sum(times > 1 for times in commits.values()),
        different=sum(results.get(item) != value for item, value in told_results),
        cut_short=cut_short,
    )


def read_notes(path: Path) -> tuple[int, list[tuple[int, int]]]:
    """How many items the child knew to be accepted, and every result it was told."""
    items = 0
    results: list[tuple[int, int]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, *numbers = line.split(" ")
        if kind == "items":
            items = max(items, int(numbers[0]))
        else:
            results.append((int(numbers[0]), int(numbers[1])))
    return items, results


def _told(count: Count) -> str:
    lines = [
        ("acknowledged", count.acknowledged, "items the child was told are accepted"),
        ("committed", count.committed, "items whose result is in the log"),
        ("lost", count.lost, "acknowledged and not committed"),
        ("committed twice", count.twice, "the lease of the first try is void after a restart"),
        ("changed results", count.different, "results the child saw and the log does not have"),
        ("cut short", count.cut_short, "attempts that a kill ended before they committed"),
    ]
    return "\n" + "".join(f"{name:<16}{number:>6}   {why}\n" for name, number, why in lines)


def _say(text: str) -> None:
    emit(f"{datetime.now().astimezone():%H:%M:%S} {text}\n")

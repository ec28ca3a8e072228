"""What can be mended about a folder: found without a lock, done by whoever owns it, and recorded.

Nothing is guessed. A file that cannot be used is put aside under another name where the log does
without it, what makers left half done is removed, and a task that is on no road to its end goes
into quarantine, where a person decides. What no row of the table speaks of is not touched.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.inspect import (
    SNAPSHOTS,
    WAL,
    Folder,
    look_into,
    snapshot_files,
    thawed,
    undisturbed,
)
from holdfast.coordinator.recovery import recover
from holdfast.coordinator.verify import Flaw, good_snapshots
from holdfast.coordinator.walking import Walk, in_words
from holdfast.core import commands as c
from holdfast.core.apply import apply
from holdfast.core.commands_decided import UNKNOWN
from holdfast.core.decide import decide
from holdfast.core.decision import Refused
from holdfast.core.errors import BrokenInvariant
from holdfast.core.freeze import freeze, thaw
from holdfast.core.ids import Index, JobId, Position, parse_task_name
from holdfast.core.invariants import check
from holdfast.core.record import Record
from holdfast.core.state import State
from holdfast.wal import RealDisk, bad_hint_slot

TEMPORARY_S: Final = 3_600
"""What is half written for so long is not being written any more."""
TORN_S: Final = 30 * 24 * 3_600
TEMPORARY: Final = (".tmp", ".kept-tmp")


class Repair(Struct, frozen=True):
    """One thing that is wrong, and what would be done about it. `kind` is a row of the table,
    `subject` a file or a task."""

    kind: str
    subject: str
    finding: str
    deed: str


class Examination(Struct, frozen=True, tag="examine"):
    """The errand: what could be mended about this folder."""

    folder: str


def examine(errand: Examination) -> list[Repair]:
    """Runs in its own process, or for somebody who has the time."""
    return undisturbed(lambda: repairs_of(Path(errand.folder)))


def repairs_of(path: Path) -> list[Repair]:
    """What is wrong with a folder and could be mended. Nothing is locked or changed."""
    folder = look_into(path)
    state = recover(folder.reader, path)
    found = [*_snapshots(folder), *_kept(path), *_left_behind(path), *_hint(path)]
    return [*found, *_lost_tasks(state)]


def _snapshots(folder: Folder) -> Iterator[Repair]:
    """Snapshots that cannot be used, where the log, or another of them, does without."""
    flaws: list[Flaw] = []
    good = good_snapshots(snapshot_files(folder.path), folder, flaws)
    usable = [each for each in good if each.position >= folder.oldest - 1]
    if folder.oldest > 1 and not usable:
        return
    walk = Walk(thawed(usable[0]) if folder.oldest > 1 else State(), usable)
    for frame in folder.reader.read(walk.state.position + 1) if folder.last else ():
        walk.follow(frame, folder.last)
    flaws += [Flaw(str(liar.path), None, "it does not hold the state it claims")
              for liar in walk.liars]  # fmt: skip
    # One that tells another story than the log may be the one that others are compared with.
    if walk.liars and folder.oldest > 1:
        return
    for file in dict.fromkeys(flaw.file for flaw in flaws):
        whys = "; ".join(flaw.why for flaw in flaws if flaw.file == file)
        yield Repair("snapshot", file, f"{file}: {whys}", "put it aside")


def _kept(path: Path) -> Iterator[Repair]:
    """Records that were kept for a snapshot that is not there."""
    known = {file.stem for file in snapshot_files(path)}
    for file in _files(path / SNAPSHOTS):
        if file.suffix == ".kept" and file.stem.isdigit() and file.stem not in known:
            yield Repair("kept", str(file), f"{file}: its snapshot is not there", "put it aside")


def _left_behind(path: Path) -> Iterator[Repair]:
    now = time.time()
    for place, endings, age_s in (
        (path / SNAPSHOTS, TEMPORARY, TEMPORARY_S),
        (path / WAL, (".tmp",), TEMPORARY_S),
    ):
        for file in _files(place):
            if file.name.endswith(endings) and now - file.stat().st_mtime > age_s:
                yield Repair("leftover", str(file), f"{file}: it was never finished", "remove it")
    for file in _files(path / WAL):
        if file.name.startswith("torn-") and now - file.stat().st_mtime > TORN_S:
            told = f"{file}: what a crash tore off, over 30 days ago"
            yield Repair("leftover", str(file), told, "remove it")


def _hint(path: Path) -> Iterator[Repair]:
    if bad_hint_slot(RealDisk(), path / WAL):
        file = path / WAL / "acked"
        yield Repair("hint", str(file), f"{file}: one of its two copies is bad", "write it again")


def _lost_tasks(state: State) -> Iterator[Repair]:
    """Tasks that an invariant names and that could be put aside without breaking another."""
    told: dict[str, str] = {}
    for violation in check(state):
        told.setdefault(violation.subject, in_words(violation))
    for subject, finding in told.items():
        task = parse_task_name(subject) if "/" in subject else None
        if task is not None and _can_be_put_aside(state, *task, finding):
            yield Repair("task", subject, finding, "put it into quarantine")


def _can_be_put_aside(state: State, job_id: JobId, index: Index, note: str) -> bool:
    """Tried on a copy: a state that is broken may not bear it."""
    try:
        copy = thaw(freeze(state))
        decision = decide(copy, _aside(job_id, index, note), copy.time)
        if isinstance(decision, Refused) or not decision.events:
            return False
        record = Record(copy.time, "SetAside", "doctor", "", "", decision.events)
        apply(copy, record, Position(copy.position + 1))
    except (BrokenInvariant, LookupError, ValueError, TypeError):
        return False
    return True


def _aside(job_id: JobId, index: Index, note: str) -> c.SetAside:
    return c.SetAside(job_id=job_id, indices=(index,), cause=UNKNOWN, note=note)


def _files(place: Path) -> list[Path]:
    return sorted(place.iterdir()) if place.is_dir() else []


def put_aside(repair: Repair) -> str:
    """Under another name, where nobody looks for it and a person finds it."""
    file, number = Path(repair.subject), 1
    while (target := file.with_name(f"{file.name}.bad-{number}")).exists():
        number += 1
    os.rename(file, target)
    _sync(file.parent)
    return f"it was put aside as {target.name}"


def remove(repair: Repair) -> str:
    file = Path(repair.subject)
    file.unlink(missing_ok=True)
    _sync(file.parent)
    return "it was removed"


def written_again(repair: Repair) -> str:
    """The owner of a folder writes both copies in turn: opening it was the repair."""
    return "it was written again"


def _sync(place: Path) -> None:
    RealDisk().fsync_dir(place)


FILE_DEEDS: Final[dict[str, Callable[[Repair], str]]] = {
    "snapshot": put_aside,
    "kept": put_aside,
    "leftover": remove,
    "hint": written_again,
}
"""What is done to files. Tasks are mended by commands, through the one door."""


def mend_files(repairs: list[Repair]) -> list[tuple[Repair, str]]:
    """Do what is to be done about files; what was done about each. Waits for the disk."""
    return [(each, FILE_DEEDS[each.kind](each)) for each in repairs if each.kind in FILE_DEEDS]


def mend_tasks(
    coordinator: Coordinator, repairs: list[Repair], actor: str, reason: str
) -> list[tuple[Repair, str]]:
    """Put tasks into quarantine; what became of each."""
    done = []
    for each in repairs:
        task = parse_task_name(each.subject) if each.kind == "task" else None
        if task is not None:
            command = _aside(*task, each.finding)
            answer = coordinator.execute(command, actor=actor, reason=reason)
            no = answer.message if isinstance(answer, Refused) else ""
            done.append((each, f"it was left: {no}" if no else "it is in quarantine"))
    return done


def record(
    coordinator: Coordinator, done: list[tuple[Repair, str]], actor: str, reason: str
) -> None:
    """Write down what was mended."""
    coordinator.execute(
        c.RecordRepair(
            findings=tuple(each.finding for each, _ in done), deeds=tuple(deed for _, deed in done)
        ),
        actor=actor,
        reason=reason,
    )

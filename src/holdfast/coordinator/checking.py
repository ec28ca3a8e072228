"""The check of the whole state: an errand of the second process.

It sets out from the oldest snapshot that can be used, replays to a position under the eyes of a
watch, compares every snapshot that it passes with what replay says, and judges what comes out by
every invariant. Where memory said how it stood at that position, the two are compared.
"""

import time
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.coordinator.inspect import Folder, look_into, snapshot_files, thawed, undisturbed
from holdfast.coordinator.verify import Flaw, good_snapshots
from holdfast.coordinator.walking import Walk, in_words
from holdfast.core.errors import BrokenInvariant
from holdfast.core.invariants import check
from holdfast.core.state import State
from holdfast.core.tally import tally
from holdfast.wal import Snapshot

TOLD_MOST: Final = 100


class Check(Struct, frozen=True, tag="check"):
    """The errand: everything that must hold of this folder up to `position` (zero: to its end).
    `tally` is what memory says of itself there, where somebody's memory is compared."""

    folder: str
    position: int = 0
    tally: dict[str, int] = {}


class Checked(Struct, frozen=True):
    """What a check found. History was watched from `since` on; -1 where it was only judged by what
    it came to, since a watch has to remember too much."""

    position: int
    since: int
    seconds: float
    violations: tuple[str, ...]


def check_folder(errand: Check) -> Checked:
    """Runs in its own process, or for somebody who has the time."""
    began = time.monotonic()
    position, since, found = undisturbed(lambda: _check(errand))
    left = len(found) - TOLD_MOST
    told = found[:TOLD_MOST] + ([f"and {left} more"] if left > 0 else [])
    return Checked(position, since, round(time.monotonic() - began, 3), tuple(told))


def _check(errand: Check) -> tuple[int, int, list[str]]:
    # Listed before the log is looked at, so that none can stand for more than is then seen.
    listed = snapshot_files(Path(errand.folder))
    folder = look_into(errand.folder)
    until = errand.position or folder.last
    found: list[str] = []
    usable = _usable_snapshots(folder, listed, until, found)
    if not usable and folder.oldest > 1:
        gone = f"no usable snapshot stands for the history before position {folder.oldest}"
        return until, -1, [*found, f"L4 replay: {gone}"]
    walk = Walk(thawed(usable[0]) if usable else State(), usable)
    try:
        _follow(walk, folder, until)
    except BrokenInvariant as error:
        # What it came to may be half told: nothing more can be judged by it.
        return until, walk.since, [*found, *walk.violations, f"L4 replay: {error}"]
    state = walk.state
    found += walk.violations
    found += [f"L5 {liar.path.name}: it does not hold the state it claims" for liar in walk.liars]
    found += map(in_words, check(state))
    if state.position != until:
        found.append(f"L1 log: it ends at {state.position}, before {until}")
    found += parted(errand.tally, state)
    return state.position, walk.since, found


def parted(memory: dict[str, int], state: State) -> list[str]:
    """Where somebody's memory and this state differ: the first says what it says of itself."""
    here = tally(state)
    return [
        f"L4 memory: it counts {number} {name} and the log tells {here.get(name)}"
        for name, number in memory.items()
        if here.get(name) != number
    ]


def _usable_snapshots(
    folder: Folder, listed: list[Path], until: int, found: list[str]
) -> list[Snapshot]:
    """Where replay may set out from, oldest first. What is wrong with the other ones is told."""
    flaws: list[Flaw] = []
    good = good_snapshots(listed, folder, flaws)
    found += [f"L5 {Path(flaw.file).name}: {flaw.why}" for flaw in flaws]
    return [snapshot for snapshot in good if folder.oldest - 1 <= snapshot.position <= until]


def _follow(walk: Walk, folder: Folder, until: int) -> None:
    if walk.state.position < min(until, folder.last):
        for frame in folder.reader.read(walk.state.position + 1):
            if not walk.follow(frame, until):
                return

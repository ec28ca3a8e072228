"""Whether a log is what it was when it was written: every byte, every link, every conclusion.

Checksums and the chain prove that nothing was changed, replay proves that it can be told, the
invariants prove that what it tells can be true. Nothing is locked, written or repaired.
"""

from pathlib import Path

from msgspec import Struct

from holdfast.coordinator.decoding import NewerRecord
from holdfast.coordinator.inspect import (
    Folder,
    LogDamaged,
    Moment,
    NewerFormat,
    look_into,
    open_folder,
    snapshot_files,
    thawed,
    undisturbed,
)
from holdfast.coordinator.walking import Walk, in_words
from holdfast.core.errors import BrokenInvariant
from holdfast.core.freeze import fingerprint
from holdfast.core.invariants import check
from holdfast.core.sound import Unsound
from holdfast.core.state import State
from holdfast.wal import RealDisk, Snapshot, verify_snapshot


class Flaw(Struct, frozen=True):
    """Something that is not as it was written. `offset` is None where no byte is to blame."""

    file: str
    offset: int | None
    why: str


class Finding(Struct, frozen=True):
    """What verifying found. `last`, `head` and `state_hash` are those of the good part."""

    log_id: str
    oldest: int
    last: int
    frames: int
    epoch: int
    head: str
    state_hash: str
    snapshots: int
    torn_bytes: int
    flaws: tuple[Flaw, ...]
    violations: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        return not self.flaws and not self.violations


def verify_folder(path: Path) -> Finding:
    """Everything about the folder that can be checked, checked."""
    return undisturbed(lambda: _verify(path))


def _verify(path: Path) -> Finding:
    # Listed before the log is looked at, so that none can stand for more than is then seen.
    listed = snapshot_files(path)
    folder = look_into(path, lenient=True)
    flaws: list[Flaw] = []
    damage = folder.reader.damage
    if damage is not None:
        flaws.append(_flaw(damage))
    snapshots = good_snapshots(listed, folder, flaws)
    state, frames, head, watched = _replay(folder, snapshots, flaws)
    verdict = folder.reader.verdict
    return Finding(
        log_id=folder.log_id,
        oldest=folder.oldest,
        last=state.position,
        frames=frames,
        epoch=state.epoch,
        head=head.hex(),
        state_hash=fingerprint(state),
        snapshots=len(snapshots),
        torn_bytes=getattr(verdict, "end", verdict.offset) - verdict.offset,
        flaws=tuple(flaws),
        violations=(*watched, *map(in_words, check(state))),
    )


def good_snapshots(listed: list[Path], folder: Folder, flaws: list[Flaw]) -> list[Snapshot]:
    """Those that are whole, of this log, and hold what can be; what speaks against the others."""
    found: list[Snapshot] = []
    for path in listed:
        try:
            snapshot = verify_snapshot(RealDisk(), path)
        except FileNotFoundError:
            # Its owner has just put a newer one in its place.
            continue
        except (LogDamaged, NewerFormat) as error:
            flaws.append(_flaw(error))
            continue
        why = _stranger(snapshot, folder)
        wrong = (why,) if why else unsound(snapshot)
        flaws.extend(Flaw(str(path), None, each) for each in wrong)
        if not wrong:
            found.append(snapshot)
    return found


def unsound(snapshot: Snapshot) -> tuple[str, ...]:
    """What a whole snapshot holds that cannot be: nothing, where it can be loaded."""
    try:
        thawed(snapshot)
    except Unsound as error:
        return error.flaws
    except BrokenInvariant as error:
        return (str(error),)
    return ()


def _stranger(snapshot: Snapshot, folder: Folder) -> str:
    """Why a whole snapshot does not belong to this log; empty where it does."""
    if snapshot.log_id != folder.log_id:
        return f"it belongs to log {snapshot.log_id}"
    if folder.reader.damage is not None:
        return ""
    if snapshot.position > folder.last:
        return f"it stands for position {snapshot.position}, yet the log ends at {folder.last}"
    if snapshot.position < folder.oldest - 1:
        return ""
    if folder.reader.chain_after(snapshot.position) != snapshot.chain_head:
        return f"its chain head is not the log's at position {snapshot.position}"
    return ""


def _replay(
    folder: Folder, snapshots: list[Snapshot], flaws: list[Flaw]
) -> tuple[State, int, bytes, list[str]]:
    """Tell the log from as early as it can be told, comparing every snapshot on the way; the state
    it comes to, how many frames there were, the head of the chain, and what a watch objected to."""
    walk = Walk(State(), ())
    head = folder.reader.chain_after(folder.oldest - 1) or b""
    frames = 0
    try:
        start = _beginning(folder, snapshots) if folder.oldest > 1 else State()
        walk = Walk(start, snapshots, folder.reader)
        if folder.last < folder.oldest:
            return walk.state, frames, head, []
        for frame in folder.reader.read(folder.oldest):
            walk.follow(frame, folder.last)
            head = frame.chain
            frames += 1
    except LogDamaged as damage:
        flaws.append(_flaw(damage))
    except (BrokenInvariant, NewerRecord) as error:
        position = walk.state.position
        flaws.append(Flaw(str(folder.path), None, f"after position {position}: {error}"))
        if position:
            # The record that cannot be may have been half told, so the good part is told again.
            walk.state = open_folder(folder.path, Moment(position=position)).state
    flaws += [Flaw(str(liar.path), None, "it does not hold the state it claims")
              for liar in walk.liars]  # fmt: skip
    return walk.state, frames, head, walk.violations


def _beginning(folder: Folder, snapshots: list[Snapshot]) -> State:
    usable = [snapshot for snapshot in snapshots if snapshot.position >= folder.oldest - 1]
    if not usable:
        raise BrokenInvariant(
            f"no usable snapshot stands for the history before position {folder.oldest}"
        )
    return thawed(usable[0])


def _flaw(error: LogDamaged | NewerFormat) -> Flaw:
    if isinstance(error, LogDamaged):
        return Flaw(str(error.file), error.offset, error.why)
    return Flaw(str(error.path), None, str(error))

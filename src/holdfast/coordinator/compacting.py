"""Making a log small by hand: a snapshot now, and then everything goes that it allows to go.

The last snapshot but one stays replayable, as always. Where there was none, two are made: the
second lets go of what the first stands for.
"""

from pathlib import Path

from msgspec import Struct

from holdfast.coordinator.settings import Settings
from holdfast.coordinator.snapshotting import Snapshotter
from holdfast.wal import WAL_FOLDER, Log, RealDisk, segment_paths, size_of, snapshot_paths


class Compacted(Struct, frozen=True):
    """What a log takes after it was made small, and what it took before."""

    position: int
    state_hash: str
    oldest: int
    segments_gone: int
    bytes_before: int
    bytes_after: int


def compact(
    snapshotter: Snapshotter, log: Log, folder: Path, settings: Settings
) -> Compacted | None:
    """None where no snapshot could be made; then nothing has gone, and the snapshotter says why."""
    disk = RealDisk()
    before, segments = _taken(folder), len(segment_paths(disk, folder / WAL_FOLDER))
    if not snapshot_paths(disk, folder) and snapshotter.make(settings) is None:
        return None
    made = snapshotter.make(settings)
    if made is None:
        return None
    left = len(segment_paths(disk, folder / WAL_FOLDER))
    return Compacted(
        position=made.position,
        state_hash=made.state_hash,
        oldest=log.oldest,
        segments_gone=segments - left,
        bytes_before=before,
        bytes_after=_taken(folder),
    )


def _taken(folder: Path) -> int:
    disk = RealDisk()
    paths = [*segment_paths(disk, folder / WAL_FOLDER), *snapshot_paths(disk, folder)]
    return sum(size_of(disk, path) for path in paths)

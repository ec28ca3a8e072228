"""Which releases wrote a log, and how much of it is in shapes that are written no more.

Such records are read for ever, each through a step that tells it as this release would. A snapshot
of this release spares the next start those steps; nothing that was written is changed.
"""

from collections import Counter
from pathlib import Path

from msgspec import Struct

from holdfast.coordinator.decoding import decode_at
from holdfast.coordinator.inspect import Folder, look_into, snapshot_files
from holdfast.core.record import is_current
from holdfast.core.upcast import names_in, opened_by
from holdfast.version import VERSION


class Ages(Struct, frozen=True):
    """`versions` counts records by the release that wrote them, `former` the types of events in
    records of former shapes; `behind` is how many of those no snapshot stands for."""

    log_id: str
    version: str
    versions: dict[str, int]
    records: int
    records_former: int
    former: dict[str, int]
    behind: int
    snapshots: int

    @property
    def needs_snapshot(self) -> bool:
        return self.behind > 0


def ages_of(path: Path) -> Ages:
    """Read every record once. `NewerRecord` where a later release wrote one."""
    folder = look_into(path)
    covered = _covered(folder)
    versions: Counter[str] = Counter()
    former: Counter[str] = Counter()
    records = old = behind = 0
    version, epoch = "", -1
    for frame in folder.reader.read(folder.oldest) if folder.last >= folder.oldest else ():
        if frame.epoch != epoch:
            epoch, version = frame.epoch, opened_by(frame.records[0]) or version
        for position, data in enumerate(frame.records, start=frame.first):
            records += 1
            versions[version or "unknown"] += 1
            if not is_current(data):
                decode_at(folder.reader, data, position)
                former.update(names_in(data))
                old += 1
                behind += position > covered
    return Ages(
        log_id=folder.log_id,
        version=VERSION,
        versions=dict(sorted(versions.items())),
        records=records,
        records_former=old,
        former=dict(sorted(former.items())),
        behind=behind,
        snapshots=len(snapshot_files(path)),
    )


def _covered(folder: Folder) -> int:
    """The last position that a snapshot stands for, by name."""
    return max((int(path.stem) for path in snapshot_files(folder.path)), default=0)

"""What `holdfast log stats` counts."""

from collections import Counter
from pathlib import Path

from msgspec import Struct

from holdfast.cli.output import View
from holdfast.coordinator.inspect import Folder, Moment, open_folder, snapshot_files
from holdfast.coordinator.views import rfc3339
from holdfast.core.lineage import Ancestor
from holdfast.core.record import decode_record

Tally = tuple[tuple[str, int], ...]


class Stats(Struct, frozen=True):
    """A log in numbers. `record_bytes` is what was asked to be kept; `disk_bytes` what it takes."""

    log_id: str
    oldest: int
    last: int
    frames: int
    records: int
    record_bytes: int
    disk_bytes: int
    segments: int
    snapshots: int
    epochs: int
    first_wall: int | None
    last_wall: int | None
    commands: Tally
    events: Tally
    lineage: tuple[Ancestor, ...] = ()
    suspended: str = ""

    @property
    def records_a_frame(self) -> float:
        return self.records / self.frames if self.frames else 0.0

    @property
    def bytes_a_record(self) -> float:
        return self.record_bytes / self.records if self.records else 0.0

    @property
    def span_ms(self) -> int:
        return max(0, (self.last_wall or 0) - (self.first_wall or 0))

    def view(self) -> View:
        return {
            "log_id": self.log_id,
            "oldest": self.oldest,
            "last_position": self.last,
            "frames": self.frames,
            "records": self.records,
            "bytes": self.record_bytes,
            "disk_bytes": self.disk_bytes,
            "bytes_per_record": round(self.bytes_a_record, 1),
            "segments": self.segments,
            "snapshots": self.snapshots,
            "epochs": self.epochs,
            "first_time": None if self.first_wall is None else rfc3339(self.first_wall),
            "last_time": None if self.last_wall is None else rfc3339(self.last_wall),
            "span_ms": self.span_ms,
            "records_by_command": dict(self.commands),
            "events_by_type": dict(self.events),
            "suspended": self.suspended or None,
            "lineage": [{"log_id": a.log_id, "until": int(a.until)} for a in self.lineage],
        }


def stats_of(folder: Folder) -> Stats:
    """Read every record once and count."""
    commands: Counter[str] = Counter()
    events: Counter[str] = Counter()
    epochs: set[int] = set()
    walls: list[int] = []
    frames = records = record_bytes = 0
    for frame in folder.reader.read(folder.oldest) if folder.last >= folder.oldest else ():
        frames += 1
        records += len(frame.records)
        epochs.add(frame.epoch)
        walls = [walls[0] if walls else frame.wall, frame.wall]
        for data in frame.records:
            record_bytes += len(data)
            record = decode_record(data)
            commands[record.command] += 1
            events.update(type(event).__name__ for event in record.events)
    files = _files(folder.path)
    state = open_folder(folder.path, Moment(position=folder.last)).state
    return Stats(
        log_id=folder.log_id,
        oldest=folder.oldest,
        last=folder.last,
        frames=frames,
        records=records,
        record_bytes=record_bytes,
        disk_bytes=sum(file.stat().st_blocks * 512 for file in files),
        segments=sum(file.suffix == ".seg" and file.stem.isdigit() for file in files),
        snapshots=len(snapshot_files(folder.path)),
        epochs=len(epochs),
        first_wall=walls[0] if walls else None,
        last_wall=walls[-1] if walls else None,
        commands=tuple(commands.most_common()),
        events=tuple(events.most_common()),
        lineage=state.lineage,
        suspended=state.suspended,
    )


def _files(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()]

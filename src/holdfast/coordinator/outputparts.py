"""What is kept of one stream of output, and the names of the files that keep it.

A stream is a few files, each holding the bytes from some offset on. Their names say which, so that
nothing but the folder has to be read to know what is there, whatever a crash left behind: a file
cut short is a gap before the next one, and gaps are told.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

STREAMS: Final = ("stdout", "stderr")
SHARD: Final = 1_000
"""Tasks to a folder: a job of a million must not make one of a million files."""

_SAFE: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")
_FILE: Final = re.compile(r"(\d{1,15})-(\d{1,9})-(stdout|stderr)-(\d{1,18})(\.end)?")


class StreamName(Struct, frozen=True, order=True, gc=False):
    """One stream of one attempt."""

    job_id: str
    index: int
    attempt: int
    stream: str


class Part(NamedTuple):
    """Bytes of a stream that lie together."""

    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


class Kept(Struct, frozen=True, gc=False):
    """What is there of a stream. It goes on at `resume` where that lies behind the last part."""

    parts: tuple[Part, ...] = ()
    ended: bool = False
    resume: int = 0

    @property
    def next(self) -> int:
        return max(self.parts[-1].end, self.resume) if self.parts else self.resume

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


class File(Struct, frozen=True, order=True, gc=False):
    """What the name of a file says."""

    index: int
    attempt: int
    stream: str
    start: int
    is_last: bool

    def of(self, job_id: str) -> StreamName:
        return StreamName(job_id, self.index, self.attempt, self.stream)


def is_safe(job_id: str) -> bool:
    """Whether a job's id may be the name of a folder."""
    return _SAFE.fullmatch(job_id) is not None


def path_of(root: Path, name: StreamName, start: int, *, is_last: bool) -> Path:
    """Where a part is. Every piece of the path is a number, one of ours, or was looked at."""
    if not is_safe(name.job_id) or name.stream not in STREAMS:
        raise ValueError(f"{name} cannot be the name of a file")
    end = ".end" if is_last else ""
    shard = str(int(name.index) // SHARD)
    file = f"{int(name.index)}-{int(name.attempt)}-{name.stream}-{int(start)}{end}"
    return root / name.job_id / shard / file


def read_file_name(text: str) -> File | None:
    """What a file's name says; None where the file is none of ours."""
    found = _FILE.fullmatch(text)
    if found is None:
        return None
    index, attempt, stream, start, end = found.groups()
    return File(int(index), int(attempt), stream, int(start), end is not None)


def shards_of(folder: Path) -> list[Path]:
    """The folders of a job in the order of its tasks."""
    try:
        found = [each for each in folder.iterdir() if each.name.isdigit() and each.is_dir()]
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda each: int(each.name))


def files_in(shard: Path) -> Iterator[tuple[File, int, float]]:
    """The files of one folder with their sizes and the time they were last written."""
    try:
        entries = list(shard.iterdir())
    except FileNotFoundError:
        return
    for entry in entries:
        file = read_file_name(entry.name)
        if file is not None:
            try:
                stat = entry.stat()
            except FileNotFoundError:
                continue
            yield file, stat.st_size, stat.st_mtime


def gathered(found: Iterable[tuple[File, int]]) -> Kept:
    """The stream that these files make."""
    files = sorted(found)
    parts = [Part(file.start, size) for file, size in files if size]
    return Kept(tuple(parts), any(file.is_last for file, _ in files))

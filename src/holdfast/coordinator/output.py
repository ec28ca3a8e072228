"""The output of attempts: bounded, in files beside the log, and never in it.

Bytes are addressed by their offset in the stream, so that whoever sends them may repeat, and a
crash on either side costs at most what was under way. Of a long stream the beginning is kept and a
tail that moves on; of all streams together, the youngest. What was dropped is told as dropped.

Nothing here is synced: output is of use to people, and nobody's truth. Used by one thread.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from holdfast.coordinator.outputparts import (
    STREAMS,
    File,
    Kept,
    Part,
    StreamName,
    files_in,
    gathered,
    is_safe,
    path_of,
    shards_of,
)
from holdfast.wire.output import Output

STREAM_BYTES: Final = 4 * 1024 * 1024
ALL_BYTES: Final = 1024 * 1024 * 1024
LEAST_CHARGE: Final = 8 * 1024
"""What a file counts for at least: the smallest one takes a block, an entry and memory here."""
GONE_FILE: Final = "gone"
FOLDER: Final = "output"
TAILS: Final = 4
EMPTY: Final = Kept()


class Quota(Struct, frozen=True, kw_only=True):
    """How much is kept of one stream, and of all together."""

    stream_bytes: int = STREAM_BYTES
    all_bytes: int = ALL_BYTES

    @property
    def head_bytes(self) -> int:
        return max(1, self.stream_bytes // 2)

    @property
    def tail_bytes(self) -> int:
        return max(TAILS, self.stream_bytes - self.head_bytes)


class Gap(Exception):
    """Bytes were offered that do not follow what is there; it goes on at `expected`."""

    def __init__(self, expected: int) -> None:
        super().__init__(f"the stream goes on at offset {expected}")
        self.expected = expected


class OutputGone(Exception):
    """There was output, and it had to make room."""

    def __init__(self, name: StreamName) -> None:
        told = f"{name.job_id}/{name.index}:{name.attempt}"
        super().__init__(f"the output of {told} is no longer kept; younger output has its place")


class Listed(Struct, frozen=True):
    """A stream in a list: it is `size` bytes long so far, and `kept` of them are there."""

    index: int
    attempt: int
    stream: str
    size: int
    kept: int
    ended: bool


class OutputStore:
    """All that is kept under one folder."""

    def __init__(self, root: Path, quota: Quota | None = None) -> None:
        self.root = root
        self.quota = quota or Quota()
        # The stream that was written to last is the last here, so that the oldest go first.
        self._streams: dict[StreamName, Kept] = {}
        self._used = 0
        self._is_loaded = False

    @property
    def used(self) -> int:
        return self._used

    def load(self) -> None:
        """Learn what is there. Everything else does this first, once."""
        if self._is_loaded:
            return
        found: dict[StreamName, list[tuple[File, int]]] = {}
        written_at: dict[StreamName, float] = {}
        for job in self.jobs():
            for shard in shards_of(self.root / job):
                for file, size, written in files_in(shard):
                    name = file.of(job)
                    found.setdefault(name, []).append((file, size))
                    written_at[name] = max(written, written_at.get(name, 0.0))
        for name in sorted(found, key=written_at.__getitem__):
            self._put(name, gathered(found[name]))
        self._is_loaded = True

    def jobs(self) -> list[str]:
        """The jobs that have output here."""
        try:
            return [each.name for each in self.root.iterdir() if is_safe(each.name)]
        except FileNotFoundError:
            return []

    # Writing.

    def append(
        self,
        name: StreamName,
        offset: int,
        content: bytes,
        *,
        skips: bool = False,
        ended: bool = False,
    ) -> int:
        """Add what is new in `content`, which begins at `offset`, and tell where the stream goes
        on. What is there already changes nothing. `Gap` where something is missing in between,
        unless the sender `skips` what it has lost itself."""
        self.load()
        kept = self._streams.get(name, EMPTY)
        if offset > kept.next:
            if not skips:
                raise Gap(kept.next)
            kept = Kept(kept.parts, kept.ended, offset)
            self._put(name, kept)
        fresh = memoryview(content)[kept.next - offset :]
        if fresh:
            kept = self._write(name, kept, fresh, ended=ended)
        if ended:
            self.end(name)
        if self._used > self.quota.all_bytes:
            self._make_room()
        return kept.next

    def limit(self, quota: Quota) -> None:
        """Keep so much from now on. A stream that is longer is cut when more of it comes."""
        self.load()
        self.quota = quota
        if self._used > quota.all_bytes:
            self._make_room()

    def end(self, name: StreamName) -> None:
        """Nothing more is expected. Whatever comes all the same is kept nevertheless."""
        self.load()
        kept = self._streams.get(name)
        if kept is None or kept.ended:
            return
        if not kept.parts:
            # All there was had to go while the attempt was under way.
            self._remove(name)
            return
        last = kept.parts[-1].start
        try:
            self._path(name, last, False).rename(self._path(name, last, True))
        except OSError:
            self._reload(name)
            raise
        self._put(name, Kept(kept.parts, True, kept.resume))

    def forget(self, jobs: Iterable[str]) -> None:
        """Remove all output of these jobs."""
        self.load()
        gone = {job for job in jobs if is_safe(job)}
        for name in [name for name in self._streams if name.job_id in gone]:
            self._used -= _cost(self._streams.pop(name))
        for job in gone:
            shutil.rmtree(self.root / job, ignore_errors=True)

    # Reading.

    def read(self, name: StreamName, offset: int, limit: int) -> Output:
        """Bytes from `offset` on, at most `limit`, or from the next that are there. An offset
        below zero counts from the end. `OutputGone` where there was something once."""
        self.load()
        kept = self._streams.get(name)
        if kept is None:
            if self.is_gone(name):
                raise OutputGone(name)
            return Output(0, b"", max(0, offset), 0, False)
        if offset < 0:
            offset = max(0, kept.next + offset)
        for part in kept.parts:
            begin = max(offset, part.start)
            if begin < part.end:
                content = self._read(name, part, begin, limit)
                if content:
                    after = begin + len(content)
                    ended = kept.ended and after >= kept.next
                    return Output(begin, content, after, begin - offset, ended)
        after = max(offset, kept.next)
        return Output(after, b"", after, after - offset, kept.ended)

    def is_gone(self, name: StreamName) -> bool:
        """Whether output of this attempt had to make room."""
        try:
            told = (self.root / name.job_id / GONE_FILE).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return f"\n{name.index}-{name.attempt}\n".encode() in told

    def listed(self, job_id: str, first: int, limit: int) -> list[Listed]:
        """Streams of a job from task `first` on, at least `limit` where there are so many, and
        always all of a task."""
        self.load()
        if not is_safe(job_id):
            return []
        found: list[Listed] = []
        for shard in shards_of(self.root / job_id):
            names = {file.of(job_id) for file, _, _ in files_in(shard) if file.index >= first}
            for name in sorted(names):
                if len(found) >= limit and name.index != found[-1].index:
                    return found
                kept = self._streams.get(name)
                if kept is not None:
                    found.append(_listed(name, kept))
        return found

    def open_streams(self) -> list[StreamName]:
        """Those that have not ended, as far as anybody told."""
        self.load()
        return [name for name, kept in self._streams.items() if not kept.ended]

    # Files.

    def _write(self, name: StreamName, kept: Kept, fresh: memoryview, *, ended: bool) -> Kept:
        try:
            while fresh:
                part = self._place(kept)
                piece = fresh[: self._room(part)]
                fresh = fresh[len(piece) :]
                # Most output comes in one piece with its end: it has its last name at once.
                is_last = ended and not part.size and not fresh
                _append(self._path(name, part.start, is_last), part.size, piece)
                before = kept.parts[:-1] if part.size else kept.parts
                parts = (*before, Part(part.start, part.size + len(piece)))
                kept = Kept(parts, kept.ended or is_last)
            kept = self._rotated(name, kept)
        except OSError:
            # The disk knows best what was written.
            self._reload(name)
            raise
        self._put(name, kept)
        return kept

    def _place(self, kept: Kept) -> Part:
        """Where the next byte goes: behind the last part, or into a new one."""
        last = kept.parts[-1] if kept.parts else None
        is_fit = last is not None and last.end == kept.next and self._room(last) > 0
        # What was marked as the end is left alone.
        return last if last is not None and is_fit and not kept.ended else Part(kept.next, 0)

    def _room(self, part: Part) -> int:
        whole = self.quota.tail_bytes // TAILS if part.start else self.quota.head_bytes
        return whole - part.size

    def _rotated(self, name: StreamName, kept: Kept) -> Kept:
        """Without the oldest parts of the tail, where it has grown too long."""
        head = [part for part in kept.parts if not part.start]
        tail = [part for part in kept.parts if part.start]
        while sum(part.size for part in tail) > self.quota.tail_bytes or len(tail) > 2 * TAILS:
            self._unlink(name, tail.pop(0))
        return Kept((*head, *tail), kept.ended, kept.resume)

    def _read(self, name: StreamName, part: Part, begin: int, limit: int) -> bytes:
        """What the file has; less than thought, or nothing, where somebody cut it."""
        for is_last in (False, True):
            try:
                with self._path(name, part.start, is_last).open("rb", buffering=0) as file:
                    file.seek(begin - part.start)
                    return file.read(min(limit, part.end - begin)) or b""
            except FileNotFoundError:
                continue
        return b""

    def _path(self, name: StreamName, start: int, is_last: bool) -> Path:
        return path_of(self.root, name, start, is_last=is_last)

    def _unlink(self, name: StreamName, part: Part) -> None:
        for is_last in (False, True):
            self._path(name, part.start, is_last).unlink(missing_ok=True)

    def _reload(self, name: StreamName) -> None:
        shard = self._path(name, 0, False).parent
        found = [(file, size) for file, size, _ in files_in(shard) if file.of(name.job_id) == name]
        if found:
            self._put(name, gathered(found))
        elif name in self._streams:
            self._used -= _cost(self._streams.pop(name))

    # What is known and what it costs.

    def _put(self, name: StreamName, kept: Kept) -> None:
        former = self._streams.pop(name, None)
        self._used += _cost(kept) - (_cost(former) if former is not None else 0)
        self._streams[name] = kept

    def _make_room(self) -> None:
        """The oldest go first: those that have ended, and others only where that is not enough."""
        # Somewhat more than needed, so that not every append looks through all of them.
        bound = self.quota.all_bytes - self.quota.all_bytes // 16
        for name in [name for name, kept in self._streams.items() if kept.ended]:
            if self._used <= bound:
                return
            for each in _siblings(name):
                if each in self._streams:
                    self._remove(each)
        for name, kept in list(self._streams.items()):
            if self._used <= bound:
                return
            for part in kept.parts:
                self._unlink(name, part)
            self._used -= _cost(kept)
            # It keeps its place in the order, and goes on where it was.
            self._streams[name] = Kept((), False, kept.next)

    def _remove(self, name: StreamName) -> None:
        # First the note, then the files: a crash in between leaves nothing that looks like silence.
        folder = self.root / name.job_id
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / GONE_FILE).open("ab") as file:
            file.write(f"\n{name.index}-{name.attempt}\n".encode())
        kept = self._streams.pop(name)
        self._used -= _cost(kept)
        for part in kept.parts:
            self._unlink(name, part)


def _siblings(name: StreamName) -> list[StreamName]:
    """All streams of the same attempt."""
    return [structs.replace(name, stream=stream) for stream in STREAMS]


def _listed(name: StreamName, kept: Kept) -> Listed:
    return Listed(name.index, name.attempt, name.stream, kept.next, kept.size, kept.ended)


def _cost(kept: Kept) -> int:
    return sum(max(part.size, LEAST_CHARGE) for part in kept.parts)


def _append(path: Path, size: int, piece: memoryview) -> None:
    """Add to a file that is `size` long, or say that it is not."""
    try:
        opened = path.open("ab", buffering=0)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("ab", buffering=0)
    with opened as file:
        if os.fstat(file.fileno()).st_size != size:
            raise OSError(f"{path} was changed by somebody else")
        while piece:
            piece = piece[file.write(piece) :]

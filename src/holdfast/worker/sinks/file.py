"""A file that gets a line of JSON an effect, each exactly once.

Whoever delivers may be killed at any moment and another told to deliver the same again. So the file
itself is the only record of what it holds: its lines are read before anything is written, a line
that was cut short is cut off, and what is found there is not written again. A lock keeps others out
meanwhile. Nothing is reported before it is on the disk.
"""

import fcntl
import mmap
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from holdfast.core.unreadable import UNREADABLE
from holdfast.wire.delivery import Bounced, Delivery, Parcel
from holdfast.wire.sinks import FileSink
from holdfast.worker.sinks.known import Marks, mark_of
from holdfast.worker.sinks.outlet import (
    NotDelivered,
    Order,
    Outcome,
    as_json,
    body_of,
    untried,
)  # fmt: skip
from holdfast.worker.staging import sync_folder

CHUNK: Final = 1 << 22
LOCK_PAUSE_S: Final = 0.01
HEAD: Final = b'{"id":"'
PERMISSIONS: Final = 0o644

Reached = Callable[[str], None]
_DECODE: Final = msgspec.json.Decoder().decode


def _on(step: str) -> None:
    """Nobody wants to know which step was reached."""


class FileOutlet:
    """`reached` is told each step, for tests that stop there; `alive` that something goes on."""

    def __init__(
        self, sink: FileSink, alive: Callable[[], None] = lambda: None, reached: Reached = _on
    ) -> None:
        self._path = sink.path
        self._patience_s = sink.timeout_ms / 2_000
        self._alive = alive
        self._reached = reached
        self._file = -1
        self._inode = (0, 0)
        # Up to where the file has been read, always the end of a line.
        self._end = 0
        self._marks = Marks()

    def deliver(self, parcel: Parcel) -> Iterator[Outcome]:
        outcomes, lines = self._written(parcel)
        try:
            self._append(lines)
        except OSError as error:
            # Who knows what of it is there; the next look tells.
            self._end, self._marks = 0, Marks()
            failure = NotDelivered(f"{self._path} cannot be written: {error}")
            order = Order()
            for delivery, bounced in outcomes:
                obstacle = order.obstacle(delivery)
                if obstacle and bounced is None:
                    bounced = untried(delivery, obstacle)
                yield delivery, bounced or order.failed(delivery, failure)
            return
        yield from outcomes

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _written(self, parcel: Parcel) -> tuple[list[Outcome], dict[bytes, bytes]]:
        """The lines of a parcel by their ids, and what cannot be a line."""
        order, outcomes, lines = Order(), list[Outcome](), dict[bytes, bytes]()
        for delivery in parcel.deliveries:
            bounced: Bounced | None = None
            try:
                obstacle = order.obstacle(delivery)
                if obstacle:
                    bounced = untried(delivery, obstacle)
                else:
                    lines[delivery.idempotency.encode()] = _line(delivery)
            except NotDelivered as error:
                bounced = order.failed(delivery, error)
            outcomes.append((delivery, bounced))
        return outcomes, lines

    def _append(self, lines: dict[bytes, bytes]) -> None:
        if not lines:
            return
        with self._locked():
            self._catch_up()
            self._reached("looked")
            marks = {text: mark_of(text) for text in lines}
            fresh = [text for text in lines if not self._has(text, marks[text])]
            self._write(b"".join([lines[text] for text in fresh]))
            self._marks.add(marks[text] for text in fresh)

    # The file.

    @contextmanager
    def _locked(self) -> Iterator[None]:
        give_up_at = time.monotonic() + self._patience_s
        while True:
            self._open()
            self._lock(give_up_at)
            # Somebody may have put another file in its place while we waited.
            if self._is_in_place():
                break
            self.close()
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _open(self) -> None:
        if self._file >= 0:
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        file = os.open(self._path, flags, PERMISSIONS)
        told = os.fstat(file)
        if not stat.S_ISREG(told.st_mode):
            os.close(file)
            raise OSError("it is not a plain file")
        # A new name is on the disk only when its folder is, and whoever made it may have died.
        sync_folder(os.path.dirname(self._path) or ".")
        if (told.st_dev, told.st_ino) != self._inode:
            self._inode, self._end, self._marks = (told.st_dev, told.st_ino), 0, Marks()
        self._file = file

    def _lock(self, give_up_at: float) -> None:
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > give_up_at:
                    raise OSError("another program holds its lock") from None
                time.sleep(LOCK_PAUSE_S)

    def _is_in_place(self) -> bool:
        try:
            told = os.stat(self._path)
        except FileNotFoundError:
            return False
        return (told.st_dev, told.st_ino) == self._inode

    def _catch_up(self) -> None:
        """Learn what was appended since, and cut off a line that somebody did not live to end."""
        size = os.fstat(self._file).st_size
        if size < self._end:
            # Somebody cut it; what is known may not be there any more.
            self._end, self._marks = 0, Marks()
        rest = b""
        while self._end + len(rest) < size:
            chunk = os.pread(self._file, CHUNK, self._end + len(rest))
            if not chunk:
                break
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                self._marks.add([mark_of(text) for text in map(_id_in, whole.split(b"\n")) if text])
                self._end += len(whole) + 1
            self._alive()
        if rest and (rest.startswith(HEAD) or HEAD.startswith(rest) or not rest.strip(b"\0")):
            os.ftruncate(self._file, self._end)
        elif rest:
            # Not ours, and not ours to cut: it becomes a line.
            self._end += len(rest) + os.write(self._file, b"\n")

    def _has(self, text: bytes, mark: int) -> bool:
        """Whether the file holds the line of this id: a mark is a hint, the file is the truth."""
        if not self._marks.has(mark):
            return False
        with mmap.mmap(self._file, self._end, prot=mmap.PROT_READ) as content:
            # What is delivered again was written lately, so the search begins at the end.
            at = content.rfind(HEAD + text + b'"')
            while at > 0 and content[at - 1] != ord("\n"):
                at = content.rfind(HEAD + text + b'"', 0, at)
            if at >= 0:
                return True
            # Somebody else may have written the line in another way.
            return any(_id_in(line) == text for line in iter(content.readline, b""))

    def _write(self, content: bytes) -> None:
        began = self._end
        try:
            unwritten = memoryview(content)
            while unwritten:
                unwritten = unwritten[os.write(self._file, unwritten) :]
            self._reached("written")
            # Also where all of it was there: whoever wrote it may not have lived to see this.
            os.fdatasync(self._file)
        except OSError:
            # Half of it may be there, or read well and not be on the disk. None of it was told
            # of, so none of it stays.
            os.ftruncate(self._file, began)
            raise
        self._end += len(content)
        self._reached("synced")


def _line(delivery: Delivery) -> bytes:
    told = {"id": delivery.idempotency, "key": delivery.key, "body": body_of(delivery)}
    return as_json(told) + b"\n"


def _id_in(line: bytes) -> bytes | None:
    """The id in a line, ours or whatever else the file holds."""
    if line.startswith(HEAD):
        text, quote, _ = line[len(HEAD) :].partition(b'"')
        if quote and b"\\" not in text:
            return text
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        told = _DECODE(line)
    except UNREADABLE:
        return None
    found = told.get("id") if isinstance(told, dict) else None
    return found.encode() if isinstance(found, str) else None


"""Bundles on a worker's machine: fetched once, unpacked once, used by many tasks.

The folder may be shared by all workers of a machine and user. Each bundle has a lock beside it:
whoever uses it shares the lock, whoever brings or removes it must have it alone. The lock's file
tells how large the bundle is, and its time when it was used last. Locks end with their process, so
a crash blocks nothing; what it left half-way has a name that nobody takes for a bundle.
"""

import errno
import fcntl
import os
import random
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct

from holdfast.wire.answers import NOT_NOW
from holdfast.wire.archives import LIMITS, Limits
from holdfast.wire.contents import is_digest, new_digest
from holdfast.wire.http import Http, Rejected, Unreachable
from holdfast.worker.unpacking import UNFINISHED, BadBundle, discard, sweep, unpack

LOCK: Final = ".lock"
BOUND_BYTES: Final = 4 * 1024 * 1024 * 1024
PAUSE_S: Final = 0.2
IDLE_S: Final = 30.0
NOT_FOUND: Final = 404

Fetch = Callable[[str], AbstractContextManager[Iterable[bytes]]]
"""The bytes of the bundle with this digest, as they come; `Unreachable`, or `BadBundle` where it
is not to be had."""


class Held(Struct):
    """A bundle in use by this process: its lock, and by how many."""

    lock: int
    users: int


class Closed(Exception):
    """Nobody waits for it any more."""


def fetch_over(http: Http) -> Fetch:
    """From the server that gave the task."""

    @contextmanager
    def fetch(digest: str) -> Iterator[Iterable[bytes]]:
        try:
            with http.stream(f"/api/v1/bundles/{digest}", idle_s=IDLE_S) as chunks:
                yield chunks
        except Rejected as no:
            if no.problem.status == NOT_FOUND:
                raise BadBundle("the server does not have it") from no
            if no.problem.status in NOT_NOW:
                raise Unreachable(http.server.url, str(no)) from no
            raise

    return fetch


class BundleCache:
    """All methods may be called from any thread. `bound_bytes` is how much may be kept; only what
    is in use goes beyond it."""

    def __init__(
        self,
        root: Path,
        fetch: Fetch,
        *,
        bound_bytes: int = BOUND_BYTES,
        limits: Limits = LIMITS,
    ) -> None:
        self.root = root.absolute()
        self._fetch = fetch
        self._bound_bytes = bound_bytes
        self._limits = limits
        self._held: dict[str, Held] = {}
        self._guard = threading.Lock()
        self._closed = threading.Event()
        if self.root.exists():
            _check_owner(self.root)
            self._tidy()

    def hold(self, digest: str) -> Path:
        """The folder of this bundle, which stays until it is let go. Waits for the network and the
        disk. `BadBundle` where it is the bundle's own fault."""
        if not is_digest(digest):
            raise BadBundle(f"{digest[:80]!r} is not the digest of a bundle")
        with self._guard:
            held = self._held.get(digest)
            if held is not None:
                held.users += 1
                return self.root / digest
        lock = self._use(digest)
        with self._guard:
            held = self._held.get(digest)
            if held is None:
                self._held[digest] = Held(lock, 1)
            else:
                # Another thread was faster; one lock is enough.
                held.users += 1
                os.close(lock)
        return self.root / digest

    def let_go(self, digest: str) -> None:
        """It may be removed when room is needed."""
        with self._guard:
            held = self._held[digest]
            held.users -= 1
            if not held.users:
                del self._held[digest]
                os.utime(held.lock)
                os.close(held.lock)

    def close(self) -> None:
        """Whoever waits is told `Closed`; what is held stays held until it is let go."""
        self._closed.set()

    # Using and bringing.

    def _use(self, digest: str) -> int:
        """A shared lock on a bundle that is there, which may have to be brought first."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        while not self._closed.is_set():
            lock = self._lock(digest, fcntl.LOCK_SH)
            if lock is not None:
                if self._is_here(digest):
                    os.utime(lock)
                    return lock
                os.close(lock)
            lock = self._lock(digest, fcntl.LOCK_EX)
            if lock is not None:
                try:
                    if not self._is_here(digest):
                        self._bring(digest, lock)
                finally:
                    os.close(lock)
                continue
            # Another worker brings it, or removes it.
            self._closed.wait(random.uniform(0, PAUSE_S))  # noqa: S311
        raise Closed

    def _bring(self, digest: str, lock: int) -> None:
        target = self.root / digest
        sweep(target)
        # A file without a name leaves nothing behind, whatever happens.
        with tempfile.TemporaryFile(dir=self.root) as archive:
            self._download(digest, archive)
            archive.seek(0)
            unpacked = unpack(archive, target, limits=self._limits)
        os.pwrite(lock, str(unpacked.content_bytes).encode(), 0)
        os.utime(lock)
        self._make_room()

    def _download(self, digest: str, archive: BinaryIO) -> None:
        found, size = new_digest(), 0
        with self._fetch(digest) as chunks:
            for chunk in chunks:
                size += len(chunk)
                if size > self._limits.archive_bytes:
                    raise BadBundle(f"it is larger than {self._limits.archive_bytes} bytes")
                found.update(chunk)
                archive.write(chunk)
        if found.hexdigest() != digest:
            raise BadBundle(f"what the server has under this name is {found.hexdigest()}")

    # Removing.

    def _make_room(self) -> None:
        """Remove what was used longest ago and is not in use, until the rest is within bounds."""
        known = sorted(self._known())
        total = sum(size for _, size, _ in known)
        for _, size, digest in known:
            if total <= self._bound_bytes:
                return
            if self._remove(digest):
                total -= size

    def _known(self) -> list[tuple[int, int, str]]:
        found: list[tuple[int, int, str]] = []
        for name in os.listdir(self.root):
            if is_digest(name):
                with suppress(FileNotFoundError):
                    file = self.root / f"{name}{LOCK}"
                    told = file.read_bytes()
                    size = int(told) if told.isdigit() else _measured(self.root / name)
                    found.append((file.stat().st_mtime_ns, size, name))
        return found

    def _remove(self, digest: str) -> bool:
        lock = self._lock(digest, fcntl.LOCK_EX)
        if lock is None:
            return False
        try:
            if self._is_here(digest):
                discard(self.root / digest)
            os.unlink(self._lock_file(digest))
        finally:
            os.close(lock)
        return True

    def _tidy(self) -> None:
        """Remove what a crash has left, unless somebody is at it right now."""
        for name in os.listdir(self.root):
            digest = name.removeprefix(".").partition(UNFINISHED)[0]
            if not name.startswith(".") or not is_digest(digest):
                continue
            lock = self._lock(digest, fcntl.LOCK_EX)
            if lock is not None:
                try:
                    sweep(self.root / digest)
                finally:
                    os.close(lock)

    # Locks.

    def _lock(self, digest: str, how: int) -> int | None:
        """The lock of a bundle, None while others have it in a way that excludes this one."""
        while True:
            file = self._lock_file(digest)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open(file, flags, 0o600)
            try:
                fcntl.flock(lock, how | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                return None
            except BaseException:
                os.close(lock)
                raise
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), os.stat(file)):
                    return lock
            # It was removed with its bundle between our two steps: that lock is nobody's.
            os.close(lock)

    def _lock_file(self, digest: str) -> Path:
        return self.root / f"{digest}{LOCK}"

    def _is_here(self, digest: str) -> bool:
        return (self.root / digest).is_dir()


def _check_owner(root: Path) -> None:
    """Whoever can write here chooses what code tasks run."""
    now = root.stat()
    if now.st_uid != os.geteuid() or now.st_mode & 0o022:
        told = "others may write there, and so could choose what tasks run"
        raise PermissionError(errno.EPERM, told, str(root))


def _measured(folder: Path) -> int:
    """The size of a bundle whose lock does not tell it: its bringer died in between."""
    return sum(
        os.lstat(os.path.join(place, name)).st_size
        for place, _, names in os.walk(folder)
        for name in names
    )

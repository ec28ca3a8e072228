"""Bundles on the server's disk: opaque files named by their digests, beside the log.

A bundle is taken in under another name, its digest is computed on the way, and it gets its own
name when every byte is on the disk. What no job refers to is removed once nobody has asked for it
for a day. All that is known about them is in memory, and is read from the folder at the start.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count, islice
from logging import getLogger
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.core.ids import Instant, JobId
from holdfast.core.state import State
from holdfast.wire.archives import is_digest, new_digest

log = getLogger("holdfast")

FOLDER: Final = "bundles"
UNUSED_MS: Final = 86_400_000
LOOK_MS: Final = 600_000
JOBS_A_TURN: Final = 20_000
ARRIVING: Final = ".arriving-"
LEAVING: Final = ".leaving-"


class Unwelcome(Exception):
    """A bundle that is not taken in. `is_too_large`: for the bundle itself, or for the store."""

    def __init__(self, told: str, *, is_too_large: bool = False) -> None:
        super().__init__(told)
        self.is_too_large = is_too_large


class Stored(Struct):
    """A bundle that is here, and when somebody asked for it last, by the wall clock."""

    size: int
    asked_at: int


class Arrival:
    """A bundle on its way in. `write` and `seal` may be called from any thread, one at a time."""

    def __init__(self, digest: str, path: Path) -> None:
        self.digest = digest
        self.path = path
        self.size = 0
        self._hash = new_digest()
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - closed by whoever ends it

    def write(self, content: bytes) -> None:
        self._hash.update(content)
        view = memoryview(content)
        while view:
            view = view[self._file.write(view) :]

    def seal(self) -> None:
        """All of it is on the disk, and is what its name says; else `Unwelcome`."""
        found = self._hash.hexdigest()
        if found != self.digest:
            raise Unwelcome(f"the digest of what came is {found}, not {self.digest}")
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class Bundles:
    """The store. Used by the thread of the coordinator, but for `Arrival` and `settle`."""

    def __init__(
        self,
        folder: Path,
        wall: Callable[[], int],
        *,
        largest_bytes: int,
        quota_bytes: int,
    ) -> None:
        self.largest_bytes = largest_bytes
        self.quota_bytes = quota_bytes
        self._folder = folder
        self._wall = wall
        self._arriving: set[Arrival] = set()
        self._numbers = count()
        self._known = dict(self._found())
        self._stored_bytes = sum(bundle.size for bundle in self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    @property
    def used_bytes(self) -> int:
        return self._stored_bytes + sum(arrival.size for arrival in self._arriving)

    def ask_for(self, digest: str) -> int | None:
        """How large it is, None where it is not here. Whoever asks may be about to use it, so its
        day begins again."""
        bundle = self._known.get(digest)
        if bundle is None:
            return None
        bundle.asked_at = self._wall()
        with suppress(OSError):
            os.utime(self.path_of(digest))
        return bundle.size

    def path_of(self, digest: str) -> Path:
        return self._folder / digest

    # Coming.

    @contextmanager
    def arriving(self, digest: str) -> Iterator[Arrival]:
        """A bundle on its way in; whatever comes of it, nothing half-way is left."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        arrival = Arrival(digest, self._folder / f"{ARRIVING}{digest}-{next(self._numbers)}")
        self._arriving.add(arrival)
        try:
            yield arrival
        finally:
            arrival.close()
            self._arriving.discard(arrival)
            with suppress(FileNotFoundError):
                arrival.path.unlink()

    def expect(self, arrival: Arrival, more_bytes: int) -> None:
        """Room for so many bytes more, or `Unwelcome`."""
        size = arrival.size + more_bytes
        if size > self.largest_bytes:
            raise Unwelcome(f"a bundle has at most {self.largest_bytes} bytes", is_too_large=True)
        if self.used_bytes + more_bytes > self.quota_bytes:
            raise Unwelcome(
                f"all bundles together may take {self.quota_bytes} bytes, and do; those of jobs "
                "that are forgotten go after a day",
                is_too_large=True,
            )
        arrival.size = size

    def admit(self, arrival: Arrival) -> bool:
        """A sealed bundle gets its name; False where it had come before. `settle` must follow
        before anybody is told."""
        os.rename(arrival.path, self.path_of(arrival.digest))
        before = self._known.get(arrival.digest)
        self._known[arrival.digest] = Stored(arrival.size, self._wall())
        self._arriving.discard(arrival)
        self._stored_bytes += arrival.size - (before.size if before is not None else 0)
        return before is None

    def settle(self) -> None:
        """The names in the folder are on the disk, and so is its own."""
        for folder in (self._folder, self._folder.parent):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    # Going.

    def unused(self) -> set[str]:
        """Those that nobody has asked for within a day."""
        since = self._wall() - UNUSED_MS
        return {digest for digest, bundle in self._known.items() if bundle.asked_at <= since}

    def drop(self, digests: Iterable[str]) -> list[Path]:
        """They are no longer here; the files that are left to be removed."""
        left: list[Path] = []
        for digest in digests:
            known = self._known.pop(digest, None)
            self._stored_bytes -= 0 if known is None else known.size
            aside = self._folder / f"{LEAVING}{digest}-{next(self._numbers)}"
            # At once, because the same bundle may come again before the old file is gone.
            with suppress(FileNotFoundError):
                os.rename(self.path_of(digest), aside)
                left.append(aside)
        return left

    def _found(self) -> Iterator[tuple[str, Stored]]:
        """What is in the folder; what a crash has left half-way is removed."""
        if not self._folder.is_dir():
            return
        for entry in list(os.scandir(self._folder)):
            if entry.name.startswith((ARRIVING, LEAVING)):
                os.unlink(entry.path)
            elif is_digest(entry.name) and entry.is_file(follow_symlinks=False):
                now = entry.stat(follow_symlinks=False)
                yield entry.name, Stored(now.st_size, now.st_mtime_ns // 1_000_000)


class Collector:
    """Removes what nobody needs: a hook of the engine. It looks at the jobs a part at a time,
    since there may be a million; one that is submitted meanwhile has asked for its bundle."""

    def __init__(
        self,
        bundles: Bundles,
        state: State,
        remove: Callable[[list[Path]], None] | None = None,
    ) -> None:
        self._bundles = bundles
        self._state = state
        self._remove = remove or _remove_aside
        self._next = Instant(0)
        self._left: set[str] = set()
        self._jobs: Iterator[JobId] | None = None

    def step(self, now: Instant) -> None:
        if self._jobs is None:
            if now < self._next:
                return
            self._next = Instant(now + LOOK_MS)
            self._left = self._bundles.unused()
            if not self._left:
                return
            # A schedule needs its code for runs that are still to come.
            schedules = self._state.schedules.values()
            self._left -= {schedule.definition.spec.bundle for schedule in schedules}
            self._jobs = iter(list(self._state.jobs))
        jobs = list(islice(self._jobs, JOBS_A_TURN))
        for job_id in jobs:
            job = self._state.jobs.get(job_id)
            if job is not None and job.spec.bundle:
                self._left.discard(job.spec.bundle)
        if len(jobs) < JOBS_A_TURN:
            self._jobs = None
            left = self._left & self._bundles.unused()
            if left:
                log.info("bundles that no job refers to are removed", extra={"count": len(left)})
                self._remove(self._bundles.drop(sorted(left)))

    def next_due(self) -> Instant:
        return self._next if self._jobs is None else Instant(1)


def _remove_aside(paths: list[Path]) -> None:
    """Removing a large file takes a while, and the engine has no while."""

    def remove() -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    threading.Thread(target=remove, name="holdfast-bundles", daemon=True).start()

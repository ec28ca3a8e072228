"""Bundles on the server's disk: opaque files named by their digests, beside the log.

A bundle is taken in under another name, its digest is computed on the way, and it gets its own
name when every byte is on the disk. What no job refers to is removed once nobody has asked for it
for a day. All that is known about them is in memory, and is read from the folder at the start.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.coordinator.collecting import looked
from holdfast.core.state import State
from holdfast.wire.contents import Arrival, Contents, Unwelcome, is_digest

FOLDER: Final = "bundles"
UNUSED_MS: Final = 86_400_000
NOTHING: Final = b""


class Known(Struct):
    """A bundle that is here, and when somebody asked for it last, by the wall clock."""

    size: int
    asked_at: int


class Bundles:
    """The store. Used by the thread of the coordinator, but for `Arrival` and `settle`."""

    what = "bundles"

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
        self._contents = Contents(folder)
        self._contents.sweep()
        self._wall = wall
        self._arriving: set[Arrival] = set()
        self._known = dict(_found(folder))
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
        return self._contents.path_of(digest)

    # Coming.

    @contextmanager
    def arriving(self, digest: str) -> Iterator[Arrival]:
        """A bundle on its way in; whatever comes of it, nothing half-way is left."""
        with self._contents.arriving(digest) as arrival:
            self._arriving.add(arrival)
            try:
                yield arrival
            finally:
                self._arriving.discard(arrival)

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
        self._contents.place(arrival)
        before = self._known.get(arrival.digest)
        self._known[arrival.digest] = Known(arrival.size, self._wall())
        self._arriving.discard(arrival)
        self._stored_bytes += arrival.size - (before.size if before is not None else 0)
        return before is None

    def settle(self, arrival: Arrival) -> None:
        """Its name is on the disk."""
        self._contents.settle(arrival.digest)

    # Going.

    def look(self) -> "Future[set[bytes]]":
        """Those that nobody has asked for within a day."""
        return looked({bytes.fromhex(digest) for digest in self._known if self._is_unused(digest)})

    def needed(self, state: State) -> Iterator[bytes]:
        """The code of jobs, and that of schedules for runs that are still to come."""
        for schedule in list(state.schedules.values()):
            yield _digest(schedule.definition.spec.bundle)
        for job_id in list(state.jobs):
            job = state.jobs.get(job_id)
            yield NOTHING if job is None else _digest(job.spec.bundle)

    def collect(self, digests: Iterable[bytes]) -> list[Path]:
        return self.drop([name for each in digests if self._is_unused(name := each.hex())])

    def drop(self, digests: Iterable[str]) -> list[Path]:
        """They are no longer here; the files that are left to be removed."""
        left: list[Path] = []
        for digest in digests:
            known = self._known.pop(digest, None)
            self._stored_bytes -= 0 if known is None else known.size
            aside = self._contents.set_aside(digest)
            if aside is not None:
                left.append(aside)
        return left

    def _is_unused(self, digest: str) -> bool:
        bundle = self._known.get(digest)
        return bundle is not None and bundle.asked_at <= self._wall() - UNUSED_MS


def _found(folder: Path) -> Iterator[tuple[str, Known]]:
    """What is in the folder."""
    for entry in list(os.scandir(folder)) if folder.is_dir() else ():
        if is_digest(entry.name) and entry.is_file(follow_symlinks=False):
            now = entry.stat(follow_symlinks=False)
            yield entry.name, Known(now.st_size, now.st_mtime_ns // 1_000_000)


def _digest(text: str) -> bytes:
    """What a job names: nothing, or a digest, as far as anybody checked."""
    return bytes.fromhex(text) if is_digest(text) else NOTHING

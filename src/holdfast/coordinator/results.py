"""Results too large for a record, on the disk beside the log: opaque files named by their digests.

A result is here, every byte of it, before the commit that refers to it is accepted. It stays for as
long as its job is kept. What nothing refers to is removed when it is an hour old: an upload whose
commit never came, and what belonged to jobs that are forgotten. Nothing about them is in memory,
because there may be very many; a look at the disk tells.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.coordinator.collecting import look_aside
from holdfast.core.owed import Stored
from holdfast.core.state import State
from holdfast.wire.contents import Arrival, Contents, Unwelcome, is_digest

FOLDER: Final = "results"
UNUSED_MS: Final = 3_600_000
NOTHING: Final = b""

InHand = Callable[[], Iterable[Stored]]
"""What reports refer to that wait for others before they are committed."""


def contents_of(folder: Path) -> Contents:
    """The store of a data folder, for whoever brings a result or reads one."""
    return Contents(folder / FOLDER, is_spread=True)


class Results:
    """The store as its owner has it. Used by the thread of the coordinator, but for `Arrival`,
    `settle` and `contents`."""

    what = "results"

    def __init__(self, data: Path, wall: Callable[[], int], *, largest_bytes: int) -> None:
        self.largest_bytes = largest_bytes
        self.contents = contents_of(data)
        self.contents.sweep()
        self.in_hand: InHand = tuple
        self._wall = wall

    def ask_for(self, digest: str) -> int | None:
        """How large it is, None where it is not here. Whoever asks may be about to refer to it, so
        its hour begins again."""
        path, now_ns = self.contents.path_of(digest), self._wall() * 1_000_000
        try:
            os.utime(path, ns=(now_ns, now_ns))
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def has(self, stored: Stored) -> bool:
        """Whether it is here and as large as it should be. It was compared when it came, and is
        compared again by whoever reads it."""
        return self.ask_for(stored.digest.hex()) == stored.size

    # Coming.

    @contextmanager
    def arriving(self, digest: str) -> Iterator[Arrival]:
        with self.contents.arriving(digest) as arrival:
            yield arrival

    def expect(self, arrival: Arrival, more_bytes: int) -> None:
        """Room for so many bytes more, or `Unwelcome`."""
        arrival.size += more_bytes
        if arrival.size > self.largest_bytes:
            raise Unwelcome(
                f"a result has at most {self.largest_bytes:,} bytes here (server.result_size); "
                "write it to a file and return its path",
                is_too_large=True,
            )

    def admit(self, arrival: Arrival) -> bool:
        """A sealed result gets its name; False where it had come before. `settle` must follow
        before anybody is told."""
        is_new = self.ask_for(arrival.digest) is None
        self.contents.place(arrival)
        return is_new

    def settle(self, arrival: Arrival) -> None:
        """Its name is on the disk."""
        self.contents.settle(arrival.digest)

    # Going.

    def look(self) -> "Future[set[bytes]]":
        """Those that nobody has asked for within an hour."""
        return look_aside(lambda: set(self._unused(self._since())))

    def needed(self, state: State) -> Iterator[bytes]:
        """The results of jobs, and those that wait for the rest of a gang."""
        for job_id in list(state.storing):
            job = state.jobs.get(job_id)
            yield NOTHING
            if job is not None and job.stored:
                yield from [stored.digest for stored in job.stored.values()]
        yield from [stored.digest for stored in self.in_hand()]

    def collect(self, digests: Iterable[bytes]) -> list[Path]:
        """What is aside is looked at once more: whoever asked for it before is seen to have, and
        whoever asks after finds nothing and brings it again."""
        left: list[Path] = []
        for digest in digests:
            aside = self.contents.set_aside(digest.hex())
            if aside is None:
                continue
            if aside.stat().st_mtime_ns <= self._since():
                left.append(aside)
            else:
                os.rename(aside, self.contents.path_of(digest.hex()))
        return left

    def _since(self) -> int:
        return (self._wall() - UNUSED_MS) * 1_000_000

    def _unused(self, since_ns: int) -> Iterator[bytes]:
        folder = self.contents.folder
        if not folder.is_dir():
            return
        for place in os.scandir(folder):
            if len(place.name) != 2 or not place.is_dir(follow_symlinks=False):
                continue
            for entry in os.scandir(place.path):
                if is_digest(place.name + entry.name):
                    try:
                        is_old = entry.stat(follow_symlinks=False).st_mtime_ns <= since_ns
                    except FileNotFoundError:
                        continue
                    if is_old:
                        yield bytes.fromhex(place.name + entry.name)

"""Which ids a file holds, at eight bytes each."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

RUN_MAX: Final = 1 << 20
RECENT_MAX: Final = 1 << 16


def mark_of(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


class Marks:
    """A set of numbers of 64 bits in sorted runs; those added last wait in a plain set. Two ids
    may share a mark, so `has` means: probably."""

    def __init__(self) -> None:
        self._runs: list[array[int]] = []
        self._partial: array[int] = array("Q")
        self._recent: set[int] = set()

    def __len__(self) -> int:
        return sum(map(len, self._runs)) + len(self._partial) + len(self._recent)

    def add(self, marks: Iterable[int]) -> None:
        self._recent.update(marks)
        if len(self._recent) < RECENT_MAX:
            return
        self._partial = array("Q", sorted([*self._partial, *self._recent]))
        self._recent.clear()
        if len(self._partial) >= RUN_MAX:
            self._runs.append(self._partial)
            self._partial = array("Q")

    def has(self, mark: int) -> bool:
        if mark in self._recent:
            return True
        for run in (self._partial, *self._runs):
            at = bisect_left(run, mark)
            if at < len(run) and run[at] == mark:
                return True
        return False

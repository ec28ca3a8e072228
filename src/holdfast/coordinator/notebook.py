"""Lines beside a log, for whoever asks about the past: what the log does not say, since nothing was
decided. Safe to lose, without authority, and bounded: when it has grown it begins anew, and one
former file is kept."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 4 * 1024 * 1024
LOOK_MS: Final = 1_000
"""How often it is looked at what nothing announces."""


class Notebook:
    def __init__(self, folder: Path, name: str, most_bytes: int = 0) -> None:
        self._most_bytes = most_bytes
        self._path = folder / name
        self._former = folder / f"{name}.old"

    def is_full(self) -> bool:
        try:
            return self._path.stat().st_size > (self._most_bytes or MOST_BYTES)
        except FileNotFoundError:
            return False

    def begin_anew(self) -> None:
        os.replace(self._path, self._former)

    def write(self, lines: Iterable[bytes]) -> None:
        with self._path.open("ab") as file:
            # A line that a crash cut short ends here.
            file.write(b"".join(b"\n" + line for line in lines))

    def lines(self) -> Iterator[bytes]:
        """All there are, oldest first: some are empty, and one may have been cut short."""
        for path in (self._former, self._path):
            try:
                yield from path.read_bytes().splitlines()
            except FileNotFoundError:
                continue

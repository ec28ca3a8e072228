"""The program that `holdfast demo --crash` kills: `python -m holdfast.cli.crash_child`.

It is an ordinary user of Holdfast. Started again after a kill, it makes the same call again and
goes on, because the call has a key. What it was told is written to a file of its own, apart from
the log, so that the two can be compared afterwards.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import holdfast
from holdfast.cli.sample import count_letters
from holdfast.cli.unwinding import heed
from holdfast.client.handles import Job

KEY: Final = "crash-demo"
WORKERS: Final = 4
FED_AT_ONCE: Final = 100


class Diary:
    """What the program was told, a line each, in the file before anyone acts on it.

    `items N`: the first N items are accepted. `result I V`: item I came to V.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._items = 0

    def accepted(self, items: int) -> None:
        if items > self._items:
            self._items = items
            os.write(self._file, f"items {items}\n".encode())

    def result(self, item: int, value: int) -> None:
        os.write(self._file, f"result {item} {value}\n".encode())


def items(count: int) -> Iterator[int]:
    """Items that come over time, so that a kill meets the feeding as well as the work."""
    for number in range(count):
        if number % FED_AT_ONCE == FED_AT_ONCE - 1:
            time.sleep(0.06)
        yield number


def main(folder: Path, diary: Diary, count: int) -> None:
    with holdfast.open(folder, workers=WORKERS) as hf:
        job: Job[tuple[int, int]] = hf.map(count_letters, items(count), key=KEY, name="crash-demo")
        for done, (item, value) in enumerate(job.as_completed(), start=1):
            # The job is only ever as long as what is durable.
            diary.accepted(len(job))
            diary.result(item, value)
            print(done, flush=True)
        diary.accepted(len(job))


if __name__ == "__main__":
    # Whoever starts us holds these signals back until it has noted that it did.
    heed()
    main(Path(sys.argv[1]), Diary(Path(sys.argv[2])), int(sys.argv[3]))

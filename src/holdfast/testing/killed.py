"""The program that is killed: `python -m holdfast.testing.killed FOLDER NOTES EXECUTOR COUNT`.

An ordinary user of Holdfast that can be started again after any end. What it was told is written
to a file of its own and synced before it goes on, so that the log can be held against it.
"""

import os
import sys
from pathlib import Path
from typing import Literal, cast

from holdfast.client.opening import open as open_folder
from holdfast.client.task import task
from holdfast.testing.chores import labour

MAP_KEY = "map"
WORKERS = 2

# The program dies more often than any sane host: what it kills must not run out of budget.
patient = task(max_losses=10_000)(labour)


class Notes:
    """Lines that are safe before anyone acts on them: `single ID N`, `map ID COUNT`."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, kind: str, job_id: str, number: int) -> None:
        os.write(self._file, f"{kind} {job_id} {number}\n".encode())
        os.fdatasync(self._file)


def say(word: str) -> None:
    """Show the one who kills how far we are."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main(folder: Path, notes: Notes, executor: str, count: int) -> None:
    say("started")
    chosen = cast(Literal["threads", "processes"], executor)
    with open_folder(folder, executor=chosen, workers=WORKERS) as hf:
        say("open")
        job = hf.map(patient, range(count), key=MAP_KEY)
        for number in range(count // 4):
            handle = hf.submit(patient, number, key=f"single {number}")
            notes.write("single", handle.id, number)
            say("single")
        for value in job.as_completed():
            notes.write("map", job.id, len(job))
            say(f"value {value}")
        for number in range(count // 4):
            handle = hf.submit(patient, number, key=f"single {number}")
            if handle.result() != number * number:
                raise SystemExit(f"single {number} came to {handle.result()}")
    say("left")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Notes(Path(sys.argv[2])), sys.argv[3], int(sys.argv[4]))

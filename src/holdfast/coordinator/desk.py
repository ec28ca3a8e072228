"""The desk where errands are given to a second process: whatever looks at the whole state is done
there, from the folder itself, so that the coordinator never pauses for it.

An errand is a tagged value; `errands.py` says which there are and who does them. Whoever gives one
waits for its answer in a thread of his own.
"""

import os
import subprocess
import sys
from pathlib import Path
from threading import Semaphore
from typing import TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.errors import OperatingError
from holdfast.core.unreadable import UNREADABLE

T = TypeVar("T")


class Failed(OperatingError):
    """An errand was not done. Nothing is harmed: it only read, or what it wrote does not count."""


class Desk:
    """At most `places` errands are under way at once; what comes on top waits for its turn."""

    def __init__(self, places: int = 1) -> None:
        self.at_work: dict[int, subprocess.Popen[bytes]] = {}
        self.leaving = False
        self._turns = Semaphore(places)

    def run(self, errand: Struct, answer: type[T], *, patience_s: float | None = None) -> T:
        """What the second process answered, or `Failed` with its last words. It is ended when it
        takes longer than `patience_s`, or when the desk is left meanwhile."""
        with self._turns:
            if self.leaving:
                raise Failed("the folder is being left")
            child = _second_process()
            self.at_work[child.pid] = child
            try:
                told = self._hear(child, msgspec.json.encode(errand), patience_s)
            finally:
                del self.at_work[child.pid]
        try:
            return msgspec.json.decode(told, type=answer)
        except UNREADABLE as error:
            raise Failed(f"its answer cannot be read: {error}") from error

    def leave(self) -> None:
        """End what is under way and begin nothing more: leaving must not take as long as a
        replay, and every errand can be given again after the next opening."""
        self.leaving = True
        for child in list(self.at_work.values()):
            child.kill()

    def _hear(
        self, child: "subprocess.Popen[bytes]", errand: bytes, patience_s: float | None
    ) -> bytes:
        if self.leaving:
            child.kill()
        try:
            told, said = child.communicate(errand, timeout=patience_s)
        except subprocess.TimeoutExpired as error:
            child.kill()
            child.communicate()
            raise Failed(f"it took longer than {patience_s:g} s and was ended") from error
        if child.returncode:
            last = said.decode(errors="replace").strip().splitlines()[-1:]
            raise Failed("".join(last) or f"exit code {child.returncode}")
        return told


def _second_process() -> "subprocess.Popen[bytes]":
    package_root = str(Path(__file__).parents[2])
    found = os.environ.get("PYTHONPATH")
    path = package_root if not found else f"{package_root}{os.pathsep}{found}"
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast.coordinator.second_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )

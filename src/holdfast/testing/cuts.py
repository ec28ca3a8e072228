"""Power cuts of a real file system under a program that writes a log."""

import os
import signal
import time
from pathlib import Path
from random import Random
from typing import Final

from msgspec import Struct

from holdfast.testing.log_stories import Lost
from holdfast.testing.mounts import Mounted
from holdfast.testing.patience import until
from holdfast.testing.scribe import Order, Promise
from holdfast.testing.scribes import Scribes, frozen, judge, lost_in, promises_in

FRAMES: Final = 100_000
LONGEST_S: Final = 0.005
PROMISES_MOST: Final = 40
LIVES_A_FOLDER: Final = 12


class Toll(Struct):
    """What the cuts came to. `lost`: promises that were broken, where nothing is synced."""

    cuts: int = 0
    promises: int = 0
    lost: int = 0


class PowerCuts:
    """Cuts of one file system. A folder lives through some of them, then a new one begins."""

    def __init__(self, mounted: Mounted, scribes: Scribes, notes: Path, dice: Random) -> None:
        self.toll = Toll()
        self._mounted = mounted
        self._scribes = scribes
        self._notes = notes
        self._dice = dice
        self._promised: list[Promise] = []

    @property
    def _folder(self) -> Path:
        return self._mounted.place / f"log-{self.toll.cuts // LIVES_A_FOLDER}"

    def cut(self) -> None:
        """One life, one cut, and the judgement."""
        self._live_and_die(syncs=True)
        told = promises_in(self._notes)
        self._promised += told
        try:
            self._promised.append(judge(self._folder, self._promised))
        except Exception as error:
            raise Lost(f"cut {self.toll.cuts} of {self._folder}: {error!r}") from error
        self._count(told)

    def cut_without_syncs(self) -> None:
        """A control: who never syncs must lose, or the cuts cut nothing."""
        self._live_and_die(syncs=False)
        told = promises_in(self._notes)
        try:
            self.toll.lost += lost_in(self._folder, told)
        except Exception:  # noqa: BLE001 - a folder that cannot even be read has lost all
            self.toll.lost += len(told)
        self._count(told, is_over=True)

    def _live_and_die(self, *, syncs: bool) -> None:
        self._notes.unlink(missing_ok=True)
        seed = f"{self._dice.random()}"
        order = Order(str(self._folder), str(self._notes), seed, FRAMES, syncs=syncs)
        pid = self._scribes.begin(order)
        os.kill(pid, signal.SIGCONT)
        wanted = self._dice.randrange(PROMISES_MOST)
        until(lambda: len(promises_in(self._notes)) >= wanted)
        # What it does next is up to the machine: a cut anywhere must do no harm.
        time.sleep(self._dice.random() * LONGEST_S)
        with frozen(pid):
            self._mounted.cut_the_power()
        self._scribes.end()
        self._mounted.unmount()
        self._mounted.mount()

    def _count(self, told: list[Promise], *, is_over: bool = False) -> None:
        self.toll.promises += len(told)
        folder = self._folder
        self.toll.cuts += 1
        if is_over or self._folder != folder:
            self._promised = []

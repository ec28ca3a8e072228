"""How much room the disk has left, and how fast it is: what is refused before it is too late.

Two marks. Below the first no more work is taken; what is there goes on and ends. Below the second
nothing is changed that somebody asks for, nothing more is given out, and the ballast is let go of,
so that what runs can still say how it ended. A disk that takes long counts as well: work that
nobody has on disk yet is bounded, and a lease is not given where its record may come too late.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.lines import say
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.shortage import NEEDED, refusal
from holdfast.core import commands as c
from holdfast.core.decision import Reason, Refused
from holdfast.core.ids import NEVER, Instant
from holdfast.wal import Ballast

LOOK_MS: Final = 1_000
SLOW_MS: Final = 10_000
"""Where a frame has been on its way for so long, nobody adds to what waits behind it."""
PENDING_BYTES: Final = 64 * 1024 * 1024
"""So much may wait for the disk; then nobody adds to it."""

LOW_BYTES: Final = 1024**3
LOW_PART: Final = 20
STOP_BYTES: Final = 64 * 1024**2
STOP_PART: Final = 100
"""The marks where nobody chose them: 5 % of the disk or 1 GiB, and 1 % or 64 MiB, whichever is
less."""

PLENTY: Final = 2
"""The ballast is taken again where this times the first mark is free."""


class Space(Struct, frozen=True):
    """Of the disk under a folder: what a program like this one may still write, and all."""

    free: int
    total: int


def space_of(folder: Path) -> Space:
    found = os.statvfs(folder)
    return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


def marks_of(settings: Settings, total: int) -> tuple[int, int]:
    """Below how many free bytes what is refused: the first mark and the second."""
    low, stop = settings.disk_low, settings.disk_stop
    first = min(LOW_BYTES, total // LOW_PART) if low is None else low
    second = min(STOP_BYTES, total // STOP_PART) if stop is None else stop
    return max(first, second), second


class Room:
    """A hook of the engine, and the coordinator's guard. `short` is what the disk has too little
    of, None for nothing. `look` may be asked as often as anybody likes: it waits for nothing."""

    def __init__(
        self,
        coordinator: Coordinator,
        settings: Settings,
        look: Callable[[], Space],
        withhold: Callable[[str], None],
        ballast: Ballast | None = None,
    ) -> None:
        self.space = Space(0, 0)
        self.marks = (0, 0)
        self._coordinator = coordinator
        self._settings = settings
        self._look = look
        self._withhold = withhold
        self._ballast = ballast
        self._holding: threading.Thread | None = None
        self._look_at = Instant(0)
        self._mark: Reason | None = None
        coordinator.guard = self.refuse
        self.look(coordinator.now())

    def adjust(self, settings: Settings) -> None:
        """Have other marks hold from now on."""
        self._settings = settings
        self.look(self._coordinator.now())

    @property
    def short(self) -> Reason | None:
        """What there is too little of now, the worst first."""
        return self._mark or self._behind(self._coordinator.now())

    def refuse(self, kind: type[c.Command]) -> Refused | None:
        """Why this cannot be taken now; asked for every command that would be written."""
        if kind in NEEDED:
            return None
        now = self._coordinator.now()
        if now >= self._look_at:
            self.look(now)
        short = self._mark or self._behind(now)
        return None if short is None else refusal(kind, short)

    def withholds(self) -> Reason | None:
        """Why nothing is given out: the disk is full, or so slow that a lease might be over before
        its record is there."""
        return self._withheld(self._coordinator.now())

    def _withheld(self, now: Instant) -> Reason | None:
        if self._mark is Reason.DISK_FULL:
            return self._mark
        term_ms = self._coordinator.term_ms
        is_late = term_ms and self._coordinator.sync_ms(now) > term_ms // 3
        return Reason.DISK_SLOW if is_late else None

    def step(self, now: Instant) -> None:
        if now >= self._look_at:
            self.look(now)
        self._withhold(self._withheld(now) or "")

    def next_due(self) -> Instant:
        """Room that comes back is noticed by itself; room that goes, by whoever takes it."""
        if self._mark is None and self.withholds() is None:
            return NEVER
        return self._look_at

    def look(self, now: Instant) -> None:
        self._look_at = Instant(now + LOOK_MS)
        try:
            self.space = self._look()
        except OSError:
            # A disk that cannot be asked says by its next write how it is.
            return
        self.marks = low, stop = marks_of(self._settings, self.space.total)
        free, before = self.space.free, self._mark
        self._mark = (
            Reason.DISK_FULL if free < stop else Reason.DISK_LOW if free < low else None
        )
        if self._mark is not before and self._mark is not None:
            say(self._mark, free=free, low=low, stop=stop)
        self._tend_ballast()

    def finish(self) -> None:
        """Wait for what is being written."""
        if self._holding is not None:
            self._holding.join()

    def line(self) -> str:
        """In one sentence, as a list of checks shows it."""
        short = self.short or self.withholds()
        return "ok" if short is None else f"{short}: {self.space.free:,} bytes are free"

    def _behind(self, now: Instant) -> Reason | None:
        coordinator = self._coordinator
        is_much = coordinator.pending_bytes > PENDING_BYTES
        return Reason.DISK_SLOW if is_much or coordinator.flight_ms(now) > SLOW_MS else None

    def _tend_ballast(self) -> None:
        ballast = self._ballast
        if ballast is None:
            return
        if self._mark is Reason.DISK_FULL:
            if ballast.let_go():
                say("ballast_released", bytes=ballast.size)
            return
        plenty = PLENTY * self.marks[0] + ballast.size
        is_busy = self._holding is not None and self._holding.is_alive()
        if self.space.free >= plenty and not is_busy and not ballast.is_held():
            self._holding = threading.Thread(
                target=self._hold, args=(ballast,), name="holdfast-ballast", daemon=True
            )
            self._holding.start()

    def _hold(self, ballast: Ballast) -> None:
        try:
            ballast.hold()
        except OSError as error:
            say("ballast_missing", why=str(error))

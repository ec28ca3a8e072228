"""The check of everything, asked for again and again while the coordinator works.

The second process does it from the folder. Here is only the question, with a few numbers about
memory as it stood when it was asked, and the last answer. A check that could not be made is an
answer too, and no good one.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.coordinator.checking import Check, Checked
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.desk import Desk
from holdfast.coordinator.lines import say
from holdfast.coordinator.settings import STOP, Settings
from holdfast.core.errors import BrokenInvariant, OperatingError
from holdfast.core.ids import NEVER, Instant
from holdfast.core.tally import tally

PATIENCE_S: Final = 1_800.0
LINES_MOST: Final = 10

Post = Callable[[Callable[[], None]], None]


def _nothing_amiss(now: Instant) -> list[str]:
    return []


class Health(Struct, frozen=True):
    """The last check: of which position, when by the wall clock, and what it found."""

    position: int
    since: int
    at_wall: Instant
    seconds: float
    violations: tuple[str, ...]

    def line(self) -> str:
        """In one sentence, as a list of checks shows it."""
        if not self.violations:
            return "ok"
        count = len(self.violations)
        return f"{count} at position {self.position}, the first: {self.violations[0]}"


class Checker:
    """A hook of the engine. The first check comes `settle_ms` after the opening where there was
    something to recover: whoever comes back then has better things to do than to wait for it.
    `present` says what runs and has no worker, as far as only memory knows."""

    def __init__(
        self,
        folder: Path,
        coordinator: Coordinator,
        settings: Settings,
        post: Post,
        *,
        settle_ms: int,
        present: Callable[[Instant], list[str]] = _nothing_amiss,
    ) -> None:
        self.last: Health | None = None
        self.made = 0
        self.desk = Desk()
        self._folder = folder
        self._coordinator = coordinator
        self._settings = settings
        self._post = post
        self._present = present
        self._absent: list[str] = []
        self._asked: Check | None = None
        self._thread: threading.Thread | None = None
        # A log of one record was just made: there is nothing to find in it.
        wait_ms = settle_ms if coordinator.state.position > 1 else settings.check_ms
        self._next = Instant(coordinator.now() + wait_ms)

    def adjust(self, settings: Settings) -> None:
        """Have another interval hold from now on."""
        self._settings = settings
        if settings.check_ms:
            soonest = Instant(self._coordinator.now() + settings.check_ms)
            self._next = min(self._next, soonest)

    @property
    def violations(self) -> tuple[str, ...]:
        return () if self.last is None else self.last.violations

    def step(self, now: Instant) -> None:
        if not self._settings.check_ms or self._is_at_work():
            return
        if self._asked is None and now >= self._next:
            self._asked = self.question()
        asked = self._asked
        if asked is not None and self._coordinator.durable >= asked.position:
            self._asked = None
            self._next = Instant(now + self._settings.check_ms)
            self._thread = threading.Thread(
                target=self.make, args=(asked,), name="holdfast-check", daemon=True
            )
            self._thread.start()

    def next_due(self) -> Instant:
        is_waiting = self._asked is None and not self._is_at_work()
        return self._next if self._settings.check_ms and is_waiting else NEVER

    def question(self) -> Check:
        """What to check: everything up to here, and what memory says of itself here."""
        state = self._coordinator.state
        self._absent = self._present(self._coordinator.now())
        return Check(str(self._folder), state.position, tally(state))

    def make(self, asked: Check) -> Health:
        """One check, from whatever thread has the time. What must hold and does not is told."""
        try:
            found = self.desk.run(asked, Checked, patience_s=PATIENCE_S)
        except (OSError, OperatingError) as error:
            found = Checked(asked.position, -1, 0.0, (f"check could not run: {error}",))
        health = Health(
            found.position,
            found.since,
            self._coordinator.clock.wall(),
            found.seconds,
            (*found.violations, *self._absent),
        )
        if not self.desk.leaving:
            self.last, self.made = health, self.made + 1
            self._tell(health)
        return health

    def finish(self) -> None:
        """Leave a check under way where it is: it only reads, and comes again."""
        self.desk.leave()
        if self._thread is not None:
            self._thread.join()

    def _is_at_work(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _tell(self, health: Health) -> None:
        for text in health.violations[:LINES_MOST]:
            say("invariant_violated", position=health.position, violation=text)
        if health.violations and self._settings.on_violation == STOP:
            broken = BrokenInvariant(f"stopped, since a check found: {health.violations[0]}")
            self._post(lambda: self._coordinator.fail(broken))

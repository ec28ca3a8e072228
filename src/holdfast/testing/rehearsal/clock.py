"""The clock of a rehearsal: it stands still until somebody moves it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from holdfast.testing.clock import ManualClock
from holdfast.testing.rehearsal.bodies import current_body
from holdfast.testing.rehearsal.errors import NotRehearsed
from holdfast.wire.amounts import Duration, duration_ms

START = datetime(1970, 1, 1, tzinfo=UTC)


class VirtualClock:
    """`run_until` lets everything happen that is due until an instant in milliseconds."""

    def __init__(self, clock: ManualClock, run_until: Callable[[int], None]) -> None:
        self._clock = clock
        self._run_until = run_until

    def now(self) -> datetime:
        """What a clock on the wall shows, in UTC."""
        return START + timedelta(milliseconds=self._clock.wall())

    def advance(self, duration: Duration) -> None:
        """Let so much time pass, with everything that happens in it: `clock.advance("10m")`."""
        if current_body() is not None:
            raise NotRehearsed("a task cannot move the clock; it may sleep: clock.sleep")
        self._run_until(self._clock.now() + duration_ms(duration, "duration"))

    def sleep(self, duration: Duration) -> None:
        """Inside a task: go on after so much virtual time, as `time.sleep` does there."""
        body = current_body()
        if body is None:
            self.advance(duration)
        else:
            body.pause(until_ms=self._clock.now() + duration_ms(duration, "duration"))

    def set_wall(self, instant: datetime) -> None:
        """Somebody sets the clock on the wall. No lease and no timeout takes notice of that."""
        wanted = round((instant - START) / timedelta(milliseconds=1))
        self._clock.move_wall(wanted - self._clock.wall())

    def __repr__(self) -> str:
        return f"<clock {self.now().isoformat()}>"

"""Tasks that run nothing and take the time that chance gives them, and deliveries likewise."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from holdfast.core.ids import LeaseId
from holdfast.core.owed import EFFECT, Entry
from holdfast.core.spec import STOP
from holdfast.testing.receivers import SteppedDeliverer, World
from holdfast.testing.sim.agenda import mixed
from holdfast.testing.sim.plan import Scenario
from holdfast.testing.stepped import Attempt, SteppedExecutor, answer_to
from holdfast.wire.delivery import Parcel
from holdfast.wire.exchange import Done, Run

KEYS: Final = ("", "ann", "bob")


def owed_by(payload: bytes) -> tuple[Entry, ...]:
    """What the task of this payload owes, wherever it runs."""
    chance = mixed(*payload)
    return tuple(
        Entry(
            EFFECT, ("ledger", "ledger", "call")[mixed(chance, n) % 3],
            KEYS[mixed(chance, n, 5) % 3], payload,
        )
        for n in range(chance % 4)
    )  # fmt: skip


class TimedExecutor(SteppedExecutor):
    """Attempts take up to `longest_ms`, those that must not outlive their leases often longer than
    a lease. Their tasks owe what their payloads say, where they owe anything. `changed` is called
    when something has begun."""

    def __init__(
        self,
        scenario: Scenario,
        dice: Random,
        clock_ms: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        super().__init__(scenario.slots, dice, failing=scenario.failing)
        self._scenario = scenario
        self._clock_ms = clock_ms
        self._changed = changed
        self._is_calm = False

    def assign(self, run: Run) -> None:
        super().assign(run)
        self.advance(self._clock_ms())
        self._changed()

    def _begin(self, attempt: Attempt, now_ms: int) -> None:
        self.ran[attempt.item.lease_id] += 1
        attempt.since = now_ms
        longest = self._scenario.longest_ms
        if attempt.run.on_disconnect == STOP and self._dice.random() < 0.3:
            longest = 2 * self._scenario.term_ms
        if self._is_calm and attempt.run.timeout_ms:
            longest = min(longest, attempt.run.timeout_ms // 2)
        attempt.until = now_ms + self._dice.randrange(1 + longest)

    def done_of(self, attempt: Attempt, ran_ms: int) -> Done:
        run, item = attempt.run, attempt.item
        owed = owed_by(item.payload) if self._scenario.owing else ()
        result = answer_to(item.payload)
        return Done(run.job_id, item.index, item.lease_id, ran_ms, result, owed)

    def alone(self) -> list[LeaseId]:
        """What runs and was to begin only when its start was durable."""
        heads = [lane[0] for lane in self._lanes if lane and lane[0].since and lane[0].run.alone]
        return [head.item.lease_id for head in heads]

    def be_calm(self) -> None:
        """From now on every attempt goes well, and ends before its timeout."""
        self._failing = 0.0
        self._is_calm = True


class TimedDeliverer(SteppedDeliverer):
    """Begins with what it is given the moment it is."""

    def __init__(
        self,
        scenario: Scenario,
        world: World,
        dice: Random,
        clock_ms: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        # A place is served one after another: all that is owed must fit into the calm.
        longest_ms = min(max(2, scenario.longest_ms), 500)
        super().__init__(world, dice, failing=2 * scenario.failing, longest_ms=longest_ms)
        self._clock_ms = clock_ms
        self._changed = changed

    def give(self, parcels: Iterable[Parcel]) -> None:
        super().give(parcels)
        self.advance(self._clock_ms())
        self._changed()

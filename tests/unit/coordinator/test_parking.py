"""How long parked exchanges wait, without a timer for each."""

import pytest

from holdfast.coordinator.parking import Parking
from holdfast.core.ids import NEVER, Instant, WorkerId
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.service import Service
from holdfast.wire.exchange import Capacity, Exchange, Hello, Reply


class Yard:
    """Workers with nothing to say, and whoever lets them go."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.service = Service(self.clock, SeededDice(1), term_ms=10_000)
        self.parking = Parking(self.service.exchanges)
        self.told: list[tuple[str, int]] = []
        self._numbers: dict[str, int] = {}

    def park(self, name: str, park_s: float = 20.0) -> None:
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        hello = Hello("h", 1, "1") if number == 1 else None
        message = Exchange(
            WorkerId(name), 1, number, number - 1, Capacity(1, 1_000, 0, 0),
            (), (), (), (), (), 0, False, hello,
        )  # fmt: skip

        def send(reply: Reply) -> None:
            self.told.append((name, reply.number))

        self.service.exchanges.take(message, send)
        self.parking.add(message, self.now, park_s)

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.parking.step(self.now)
        self.service.settle()

    @property
    def now(self) -> Instant:
        return self.service.coordinator.now()


@pytest.fixture
def yard() -> Yard:
    return Yard()


def test_who_has_waited_long_enough_is_answered_with_nothing_and_nobody_else(yard: Yard) -> None:
    yard.park("a")
    yard.clock.advance(5_000)
    yard.park("b")
    yard.pass_time(14_999)
    assert yard.told == []
    yard.pass_time(1)
    assert yard.told == [("a", 1)]
    yard.pass_time(5_000)
    assert yard.told == [("a", 1), ("b", 1)]
    assert yard.parking.next_due() == NEVER


def test_who_speaks_again_waits_anew(yard: Yard) -> None:
    yard.park("a")
    yard.park("b")
    yard.pass_time(10_000)
    yard.park("a")
    yard.pass_time(0)
    assert yard.told == [("a", 1)]
    yard.pass_time(10_000)
    assert yard.told == [("a", 1), ("b", 1)]
    assert yard.parking.next_due() == yard.now + 10_000


def test_who_was_answered_meanwhile_is_not_answered_again(yard: Yard) -> None:
    yard.park("a")
    yard.service.exchanges.unpark_all()
    yard.pass_time(20_000)
    assert yard.told == [("a", 1)]


def test_from_a_clearing_on_others_may_wait_less(yard: Yard) -> None:
    yard.park("a")
    yard.service.exchanges.unpark_all()
    yard.parking.clear()
    yard.park("b", 0.5)
    yard.pass_time(500)
    assert yard.told == [("a", 1), ("b", 1)]

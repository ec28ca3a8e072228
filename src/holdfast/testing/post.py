"""A worker played by hand: it says exactly what a test has it say, and keeps what it is told."""

from typing import Any

from holdfast.core.ids import LeaseId, WorkerId
from holdfast.testing.service import Service
from holdfast.wire.exchange import (
    Capacity,
    Done,
    Exchange,
    Failed,
    Hello,
    Lingering,
    Released,
    Reply,
    Started,
)


class Post:
    """Numbers its messages by itself; `number` repeats one, `seen` says which answer arrived."""

    def __init__(self, service: Service, *, name: str = "w", incarnation: int = 1) -> None:
        self.service = service
        self.name = WorkerId(name)
        self.incarnation = incarnation
        self.replies: list[Reply] = []
        self.number = 0

    def say(
        self,
        *,
        number: int | None = None,
        seen: int | None = None,
        slots: int = 1,
        held: tuple[int, ...] = (),
        started: tuple[Started, ...] = (),
        done: tuple[Done, ...] = (),
        failed: tuple[Failed, ...] = (),
        released: tuple[Released, ...] = (),
        occupied: int = 0,
        draining: bool = False,
        hello: Hello | None = None,
        lingering: tuple[Lingering, ...] = (),
        leaving: bool = False,
        capacity: Capacity | None = None,
        **owed: Any,
    ) -> None:
        """Say it without waiting for anything; the next turn may answer. `owed` is what it says of
        entries, of progress and of leftovers, and from which coordinator it heard last."""
        self.number = self.number + 1 if number is None else number
        owed.setdefault("epoch", self.replies[-1].epoch if self.replies else 0)
        offers = capacity or Capacity(slots, slots * 1_000, 1 << 30, 0)
        if seen is None:
            seen = self.number - 1
        exchange = Exchange(
            self.name, self.incarnation, self.number, seen, offers, started, done, failed,
            released, tuple(map(LeaseId, held)), occupied, draining, hello,
            lingering, leaving, **owed,
        )  # fmt: skip
        self.service.exchanges.take(exchange, self.replies.append)

    def hear(self, **said: Any) -> Reply:
        """Say it and wait until everything is durable: the newest answer."""
        before = len(self.replies)
        self.say(**said)
        self.service.settle()
        if len(self.replies) != before + 1:
            raise AssertionError(f"{len(self.replies) - before} answers came instead of one")
        return self.replies[-1]

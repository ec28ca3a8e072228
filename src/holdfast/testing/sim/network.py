"""A network between processes that loses, doubles, delays and cuts, and connections across it."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from msgspec import Struct

from holdfast.testing.sim.agenda import MILLI, Action, Agenda, mixed, part_of
from holdfast.testing.sim.machines import Process
from holdfast.wire.answers import Rejected
from holdfast.wire.errors import Unreachable

SERVER: Final = "server"
ANYBODY: Final = ""


class Weather(Struct):
    """What happens to messages from one to another while it lasts; an empty name is anybody's.
    `lost`, `doubled`, `late` and `reset` are shares of the messages; `late_ms` is how late."""

    source: str
    target: str
    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0
    late_ms: int = 0
    reset: float = 0.0
    is_cut: bool = False

    def covers(self, source: str, target: str) -> bool:
        return self.source in (ANYBODY, source) and self.target in (ANYBODY, target)


class Host(Protocol):
    """Whoever takes calls: the process, and what it does with one."""

    process: Process

    def take(self, call: "Call") -> None: ...

    def forsake(self, call: "Call") -> None: ...


class Network:
    """`fired` counts what it has done to messages."""

    def __init__(
        self, agenda: Agenda, seed: int, fired: Callable[[str], None], delay_us: tuple[int, int]
    ) -> None:
        self.weathers: list[Weather] = []
        self.host: Host | None = None
        self._agenda = agenda
        self._seed = seed
        self._fired = fired
        self._least, self._most = delay_us
        self._names: dict[str, int] = {}
        self._sent: dict[tuple[str, str], int] = {}
        self._open: dict[Call, None] = {}

    def carry(self, source: str, target: str, message: Action) -> None:
        """Bring a message to the other side: perhaps late, perhaps twice, perhaps never."""
        number = self._sent.get((source, target), 0) + 1
        self._sent[source, target] = number
        chance = mixed(self._seed, self._name(source), self._name(target), number)
        delay = self._least + chance % (self._most - self._least + 1)
        for place, weather in enumerate(self.weathers):
            if not weather.covers(source, target):
                continue
            if weather.is_cut:
                self._fired("message cut off")
                return
            throw = part_of(mixed(chance, place))
            if throw < weather.lost:
                self._fired("message lost")
                return
            if (throw := throw - weather.lost) < weather.doubled:
                self._fired("message doubled")
                self._agenda.after(delay + chance % (3_000 * MILLI), message)
            elif throw - weather.doubled < weather.late:
                self._fired("message delayed")
                delay += mixed(chance, 7) % (weather.late_ms * MILLI)
        self._agenda.after(delay, message)

    def loses_reply(self, source: str, target: str) -> bool:
        """Whether the connection breaks after the request was dealt with: the asker does not know
        whether it was."""
        number = self._sent.get((source, target), 0)
        throw = part_of(mixed(self._seed, 3, self._name(target), number))
        for weather in self.weathers:
            if weather.covers(source, target) and throw < weather.reset:
                self._fired("reply lost after processing")
                return True
        return False

    def call(self, source: Process, message: Any, answer_s: float) -> "asyncio.Future[Any]":
        """Ask whoever serves. `Unreachable` where no answer comes in time."""
        answer: asyncio.Future[Any] = source.create_future()
        call = Call(self, source, message, answer)
        timer = source.call_later(answer_s, call.fail, "it took too long")

        def over(_: object) -> None:
            timer.cancel()
            call.hang_up()

        answer.add_done_callback(over)
        self.carry(source.name, SERVER, call.arrive)
        return answer

    def reset(self, host: Host) -> None:
        """A process is gone and its machine says so to whoever was connected."""
        for call in [call for call in self._open if call.host is host]:
            del self._open[call]
            self.carry(SERVER, call.source.name, partial(call.fail, "reset"))

    def forget(self, host: Host) -> None:
        """A machine is gone and says nothing."""
        for call in [call for call in self._open if call.host is host]:
            del self._open[call]

    def _name(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names) + 1)


class Call:
    """One request on a connection of its own."""

    def __init__(
        self, network: Network, source: Process, message: Any, answer: "asyncio.Future[Any]"
    ) -> None:
        self.source = source
        self.message = message
        self.host: Host | None = None
        self._network = network
        self._answer = answer
        self._is_doubled = False
        self.is_answered = False

    def arrive(self) -> None:
        """The request is there; a second time where the network doubled it, and then whoever asks
        hears both answers as one."""
        network = self._network
        host = network.host
        if host is None or not host.process.is_alive:
            network.carry(SERVER, self.source.name, lambda: self.fail("nobody listens"))
            return
        if self.host is not None and not self._answer.done():
            # It came on two connections, and whoever asked takes the answer of either.
            self._is_doubled = True
            host.process.post(host.take, Call(network, self.source, self.message, self._answer))
            return
        self.host = host
        network._open[self] = None
        host.process.post(host.take, self)

    def reply(self, answer: Any) -> None:
        """What the host says. An exception is said too, as whatever the asker makes of it."""
        network, name = self._network, self.source.name
        network._open.pop(self, None)
        self.is_answered = True
        if self._is_doubled and isinstance(answer, Rejected):
            # That the other one has taken its place.
            return
        if network.loses_reply(SERVER, name):
            network.carry(SERVER, name, lambda: self.fail("reset"))
        else:
            network.carry(SERVER, name, lambda: self._settle(answer))

    def fail(self, why: str) -> None:
        self._settle(Unreachable(SERVER, why))

    def hang_up(self) -> None:
        """Nobody waits for the answer any more; the host hears of that, unless the network is in
        the way."""
        host, waiting = self.host, self._network._open
        if host is None or self not in waiting:
            return
        del waiting[self]
        if self.source.is_alive:
            self._network.carry(
                self.source.name, SERVER, lambda: host.process.post(host.forsake, self)
            )

    def _settle(self, answer: Any) -> None:
        if self.source.is_alive:
            self.source.post(self._tell, answer)

    def _tell(self, answer: Any) -> None:
        if self._answer.done():
            return
        if isinstance(answer, Exception):
            self._answer.set_exception(answer)
        else:
            self._answer.set_result(answer)

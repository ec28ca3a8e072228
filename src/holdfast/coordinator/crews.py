"""The workers of one moment, as far as anybody knows them: those that a server hears of, or those
that the notes beside a log tell of."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.notebook import LOOK_MS
from holdfast.coordinator.pacenotes import Paced
from holdfast.coordinator.placement import Known, outlook_of
from holdfast.coordinator.seats import Paces, Worker
from holdfast.coordinator.settings import Settings
from holdfast.core.debts import Owing
from holdfast.core.ids import Instant, LeaseId
from holdfast.core.ready import Row
from holdfast.core.state import State
from holdfast.scheduler.aging import Aging
from holdfast.scheduler.desks import CORDONED, DRAINING, OPEN, SILENT
from holdfast.scheduler.ledger import Name
from holdfast.scheduler.outlook import Outlook
from holdfast.scheduler.owing import Standing, standing_of
from holdfast.scheduler.rates import Rate, filled
from holdfast.scheduler.serving import Serving


class Crew(Protocol):
    """`is_granting`: whether anything is given out at all. `withheld`: why not for now, where the
    disk is short of something."""

    @property
    def is_granting(self) -> bool: ...

    @property
    def withheld(self) -> str: ...

    @property
    def paces(self) -> Paces: ...

    def workers(self) -> Iterable[Worker]:
        """Those that have not left."""
        ...

    def standing(self, worker: Worker) -> str:
        """Whether it takes work, and why not."""
        ...

    def outlook(self, guests: Iterable[Row] = ()) -> Outlook:
        """What a plan is made from, were everybody that takes work asking for it now."""
        ...

    def tokens(self) -> Mapping[Name, int]:
        """How many of what is bounded in time may start now, where anybody knows."""
        ...

    def standings(self) -> Callable[[Owing], Standing]:
        """How what commits owe stands."""
        ...

    def next_start_ms(self, name: Name) -> int | None:
        """How long until one more may start of what a rate bounds, where anybody knows."""
        ...

    def serving(self, lease_id: LeaseId) -> Serving | None:
        """How a replica of a service stands, where anybody knows."""
        ...


class LiveCrew:
    """The workers that a server knows."""

    def __init__(self, state: State, exchanges: Exchanges) -> None:
        self._state = state
        self._exchanges = exchanges

    @property
    def is_granting(self) -> bool:
        return self._exchanges.granting

    @property
    def withheld(self) -> str:
        return self._exchanges.withheld

    @property
    def paces(self) -> Paces:
        return self._exchanges.placement.paces

    def workers(self) -> list[Worker]:
        # Those that only deliver run nothing: to a task they are not there.
        known = self._exchanges.workers.values()
        return [worker for worker in known if worker.capacity.slots and not worker.has_left]

    def standing(self, worker: Worker) -> str:
        if not self._exchanges.registry.is_alive(worker):
            return SILENT
        if worker.draining:
            return DRAINING
        return CORDONED if worker.worker in self._state.cordoned else OPEN

    def outlook(self, guests: Iterable[Row] = ()) -> Outlook:
        able = [
            worker
            for worker in self.workers()
            if self.is_granting and not self.withheld and not self._state.suspended
            and self.standing(worker) == OPEN
        ]
        return self._exchanges.placement.outlook(able, guests=guests)

    def tokens(self) -> Mapping[Name, int]:
        return self._exchanges.placement.tokens()

    def standings(self) -> Callable[[Owing], Standing]:
        return self._exchanges.deliveries.standings()

    def next_start_ms(self, name: Name) -> int | None:
        return self._exchanges.placement.rates.wait_ms(name)

    def serving(self, lease_id: LeaseId) -> Serving | None:
        standing = self._exchanges.servicing.standing(lease_id)
        return None if standing is None else Serving(standing.is_ready, standing.told)


class NotedCrew:
    """The workers that were noted at a moment of the past, and what was noted of how long tasks
    take and of how many may start in a span of time."""

    is_granting = True
    withheld = ""

    def __init__(
        self,
        state: State,
        now: Instant,
        noted: Sequence[tuple[Worker, str]],
        paced: Paced = Paced(),  # noqa: B008 - a value, never changed
    ) -> None:
        self.paces = Paces(paced.means_us)
        self._paced = paced
        self._state = state
        self._now = now
        self._noted = {worker.worker: (worker, standing) for worker, standing in noted}

    def workers(self) -> list[Worker]:
        return [worker for worker, _ in self._noted.values()]

    def serving(self, lease_id: LeaseId) -> None:
        return None

    def standing(self, worker: Worker) -> str:
        told = self._noted[worker.worker][1]
        is_cordoned = worker.worker in self._state.cordoned
        return CORDONED if told == OPEN and is_cordoned else told

    def outlook(self, guests: Iterable[Row] = ()) -> Outlook:
        is_idle = bool(self._state.suspended)
        open_to = (worker for worker in self.workers() if self.standing(worker) == OPEN)
        able = [] if is_idle else list(open_to)
        aging = Aging(Settings().aging_ms)
        known = Known(self._state, self._now, self.workers(), self.paces, aging, self.tokens())
        return outlook_of(known, able, guests=guests)

    def tokens(self) -> Mapping[Name, int]:
        """Notes are made once a second: until the next may have been, nothing is gained."""
        found: dict[Name, int] = {}
        for name, limit in self._state.limits.items():
            if self._paced.is_noted and limit.starts and limit.per_ms:
                rate = Rate(limit.starts, limit.per_ms)
                level, at = self._paced.levels.get(name, (0.0, self._now))
                found[name] = int(filled(rate, level, self._now - at - LOOK_MS))
        return found

    def next_start_ms(self, name: Name) -> int | None:
        return None

    def standings(self) -> Callable[[Owing], Standing]:
        return noted_standings(self._state, self._now)


def noted_standings(state: State, now: Instant) -> Callable[[Owing], Standing]:
    """How what commits owed stood, as far as the log tells."""
    return lambda owing: standing_of(state, owing, now)

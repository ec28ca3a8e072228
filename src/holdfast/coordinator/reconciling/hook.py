"""The loop over runtimes as a part of a coordinator's turns.

Whatever happens to a runtime or to what belongs to it brings its name into the queue; a turn works
off so many names at most. Nothing waits for anything here, so a turn is never held up.
"""

from collections.abc import Callable, Mapping
from typing import Final

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.reconciling.analyzers import WorkersMeasured
from holdfast.coordinator.reconciling.crashes import Crashes
from holdfast.coordinator.reconciling.grids import Grids
from holdfast.coordinator.reconciling.holdings import Holdings
from holdfast.coordinator.reconciling.leaving import Leaving
from holdfast.coordinator.reconciling.loads import Loads
from holdfast.coordinator.reconciling.sites import Sites
from holdfast.coordinator.reconciling.store import LocalStore
from holdfast.coordinator.reconciling.substrate import LocalSubstrate
from holdfast.coordinator.reconciling.tending import Tender
from holdfast.coordinator.runtime_history import note_deeds
from holdfast.core import commands_resources as r
from holdfast.core.ids import NEVER, Instant, Position
from holdfast.core.record import Record
from holdfast.runtimes.actions import EmitEvent
from holdfast.runtimes.analyzers import Ask, Prometheus, Static
from holdfast.runtimes.descriptor import TemplateDescriptor
from holdfast.runtimes.happenings import Happenings
from holdfast.runtimes.loop import Reconciler
from holdfast.runtimes.ports import Analyzer
from holdfast.runtimes.tally import Tally
from holdfast.runtimes.templates import TEMPLATES

DEEDS: Final = frozenset({r.PutResource.__name__, r.MarkResourceDeleted.__name__})
"""What people ask of runtimes, as records name it."""

ROUNDS_A_TURN: Final = 3
"""What a pass tells a deployment to be is begun in the same turn, and seen by the next pass."""


class Reconciling:
    """`read` gives a record of the log, durable or not. `ask` asks servers elsewhere; without it
    nobody recommends what they know."""

    def __init__(
        self,
        coordinator: Coordinator,
        exchanges: Exchanges,
        read: Callable[[Position], Record],
        *,
        descriptors: Mapping[str, TemplateDescriptor] = TEMPLATES,
        ask: Ask | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._exchanges = exchanges
        state, servicing = coordinator.state, exchanges.servicing
        self._holdings = Holdings(state)
        self._tender = Tender(
            coordinator, self._holdings, servicing,
            Leaving(state, exchanges.registry, coordinator.now()),
            Sites(state, exchanges.registry),
        )  # fmt: skip
        self.happenings = Happenings()
        substrate = LocalSubstrate(
            coordinator, self._holdings, self._tender, Crashes(read), Loads(state, servicing),
            Grids(servicing), descriptors,
        )  # fmt: skip
        analyzers: dict[str, Analyzer] = {
            "static": Static(),
            "workers": WorkersMeasured(state, self._holdings, servicing),
        }
        if ask is not None:
            analyzers["prometheus"] = Prometheus(ask, self._complain)
        store = LocalStore(coordinator, self.happenings)
        self.reconciler = Reconciler(
            store, substrate, analyzers, coordinator, descriptors=descriptors
        )
        self.read = store.read
        self._holdings.changed = self._changed
        coordinator.attention = self._note
        servicing.on_change = self._holdings.note_job

    @property
    def tally(self) -> Tally:
        """What is counted about runtimes."""
        return self.reconciler.tally

    def step(self, now: Instant) -> None:
        if self._is_held_back():
            return
        for _ in range(ROUNDS_A_TURN):
            dues = (self.reconciler.step(now), self._tender.step(now))
            if all(due == NEVER or due > now for due in dues) and not self._is_due(now):
                return

    def next_due(self) -> Instant:
        if self._is_held_back():
            return NEVER
        now = self._coordinator.now()
        dues = (self.reconciler.queue.next_due(now), self._tender.queue.next_due(now))
        return min((due for due in dues if due != NEVER), default=NEVER)

    def enqueue(self, name: str) -> None:
        """Have a runtime looked at in the next turn."""
        self.reconciler.enqueue(name)

    def _note(self, record: Record) -> None:
        """A record was applied."""
        if record.command in DEEDS:
            note_deeds(self.happenings, record, record.at)
        self._holdings.note(record)

    def _is_due(self, now: Instant) -> bool:
        due = self.reconciler.queue.next_due(now)
        return due != NEVER and due <= now

    def _is_held_back(self) -> bool:
        """Where nothing is given out, nothing is decided either."""
        return bool(self._coordinator.state.suspended) or not self._exchanges.granting

    def _complain(self, name: str, problem: str) -> None:
        event = EmitEvent(reason="AnalyzerFailed", message=problem, is_warning=True)
        self.happenings.tell(name, event, self._coordinator.now())

    def _changed(self, owner: str, name: str) -> None:
        if owner:
            self.reconciler.enqueue(owner)
        if name:
            self._tender.queue.add(name)

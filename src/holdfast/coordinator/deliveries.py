"""What commits owe, dealt out to those who can deliver it, and what they say became of it.

Entries travel in exchanges. Nobody delivers here: the coordinator knows who has what in hand, as
long as it lives, and what nobody has in hand it deals out again. So an entry may be delivered more
than once, always under the same idempotency key, and is never forgotten.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from typing import Final

from holdfast.coordinator.carriers import Carriers
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.entries import Entries, idempotency_key
from holdfast.coordinator.hands import ENTRIES_MOST, Hands, key_of
from holdfast.coordinator.registry import Registry
from holdfast.coordinator.reporting import ReadRecord
from holdfast.coordinator.seats import Worker
from holdfast.core import commands as c
from holdfast.core.circuit import SINK, CircuitState
from holdfast.core.debts import Owing, Place
from holdfast.core.ids import NEVER, Instant, WorkerId
from holdfast.core.owed import BLOCK, EFFECT, FILE, READY, DebtName
from holdfast.core.spec import CircuitPolicy
from holdfast.core.state import State
from holdfast.scheduler.owing import Standing, standing_of, without_carrier, without_sink
from holdfast.wire.delivery import SERVER, Bounced, Delivery, Parcel
from holdfast.wire.exchange import Exchange
from holdfast.wire.sinks import AnySink, encode_sink

FILE_TRIES: Final = 20
FIRST_WAIT_MS: Final = 1_000
LONGEST_WAIT_MS: Final = 300_000
"""What staged files are tried by, and entries whose sink is not configured any more."""
WAIT_MOST_MS: Final = 86_400_000
"""However long a receiver asks not to be asked again."""
ENVELOPE_BYTES: Final = 200
"""About what an entry takes on the way beside its body."""

ACTOR: Final = "deliveries"
NOT_RUN: Final = "does not run the block any more"

Dealt = dict[WorkerId, list[Parcel]]


class Deliveries:
    """`adjust` says where effects may go; that may change at any time. An entry of a sink that is
    not there waits."""

    def __init__(self, coordinator: Coordinator, registry: Registry, read: ReadRecord) -> None:
        self.carriers = Carriers(coordinator, registry)
        # How often it went well and failed since this began, by kind and place.
        self.delivered: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()
        self.hands = Hands()
        self._encoded: dict[str, bytes] = {}
        self._coordinator = coordinator
        self._state = coordinator.state
        self._entries = Entries(read)
        # Who said of an entry that it is for others.
        self._elsewhere: dict[DebtName, set[WorkerId]] = {}
        # Blocks whose commit an answer tells that may not have been heard.
        self._fresh: dict[DebtName, int] = {}
        self._turn = 0

    def adjust(self, sinks: Mapping[str, AnySink]) -> None:
        self.carriers.sinks = dict(sinks)
        self._encoded = {name: encode_sink(sink) for name, sink in sinks.items()}

    # --- what workers say -----------------------------------------------------------------------

    def hear(self, worker: Worker, exchange: Exchange) -> None:
        """Take in what became of entries, and what the worker still has in hand. Its reports have
        been judged before."""
        key = key_of(worker)
        if exchange.delivered:
            self._confirm(worker, exchange.delivered)
        for bounced in exchange.bounced:
            self._bounce(worker, bounced)
        if exchange.bounced:
            names = [bounced.name for bounced in exchange.bounced]
            self._state.debts.put_back(self.hands.settle(key, names))
        carrying = frozenset(exchange.carrying)
        if key in self.hands:
            dropped = self.hands.dropped(key, exchange.seen, carrying)
            self._state.debts.put_back(self.hands.settle(key, dropped))
        for name in carrying:
            self._adopt(worker, name)
        if key in self._state.debts.blocks:
            self._look_at_blocks(worker, exchange, carrying)

    def _confirm(self, worker: Worker, delivered: Iterable[DebtName]) -> None:
        """All that one exchange confirms is one record."""
        debts = self._state.debts
        found = [owing for name in delivered if (owing := debts.find(name)) is not None]
        names = tuple(owing.name for owing in found)
        self.hands.settle(key_of(worker), delivered)
        for owing in found:
            self._elsewhere.pop(owing.name, None)
            self.delivered[(owing.debt.kind, owing.debt.place)] += 1
        if names:
            actor = f"worker:{worker.worker}"
            self._coordinator.execute(c.ConfirmDeliveries(names=names), actor=actor)

    def _bounce(self, worker: Worker, bounced: Bounced) -> None:
        owing = self._state.debts.find(bounced.name)
        if owing is None or bounced.is_untried:
            return
        if bounced.is_elsewhere and not self.carriers.is_home(worker, owing):
            self._elsewhere.setdefault(bounced.name, set()).add(worker.worker)
            return
        self._elsewhere.pop(bounced.name, None)
        self._fail(owing, bounced.error, f"worker:{worker.worker}",
                   is_final=bounced.is_final, wait_ms=bounced.wait_ms)  # fmt: skip

    def _fail(
        self, owing: Owing, error: str, actor: str, *, is_final: bool = False, wait_ms: int = 0
    ) -> None:
        self.failed[(owing.debt.kind, owing.debt.place)] += 1
        sink = self.carriers.sinks.get(owing.debt.place) if owing.debt.kind == EFFECT else None
        tries = FILE_TRIES if sink is None else sink.tries
        first_ms = FIRST_WAIT_MS if sink is None else sink.first_wait_ms
        circuit = CircuitPolicy()
        if sink is not None and actor != ACTOR:
            # Where nobody could try it, nothing is known of the sink.
            circuit = CircuitPolicy(sink.circuit_failures, sink.circuit_cooldown_ms)
        longest_ms = LONGEST_WAIT_MS if sink is None else sink.longest_wait_ms
        # Half of the wait is chance, so that those who failed together do not come together.
        whole_ms = min(first_ms << min(owing.debt.tries, 40), longest_ms)
        delay_ms = round(whole_ms * (0.5 + self._coordinator.dice.roll() / 2))
        self._coordinator.execute(
            c.FailDelivery(
                name=owing.name,
                error=error,
                most_tries=tries,
                delay_ms=min(max(delay_ms, wait_ms), WAIT_MOST_MS),
                is_final=is_final,
                circuit=circuit,
            ),
            actor=actor,
        )

    def _adopt(self, worker: Worker, name: DebtName) -> None:
        """It was given by a coordinator before this one, or was thought lost."""
        owing = self._state.debts.find(name)
        if owing is not None and not owing.is_away and owing.debt.kind != BLOCK:
            self._state.debts.take(owing)
            self.hands.give(worker, name, 0, 0)

    def _look_at_blocks(
        self, worker: Worker, exchange: Exchange, carrying: frozenset[DebtName]
    ) -> None:
        """A block is run by whoever committed, or by nobody: one that it neither runs nor has told
        of is over, and nobody knows how."""
        committed = {(done.job_id, done.index) for done in exchange.done}
        # A message from before we were there may come late: from before the commit, even. Whoever
        # has heard from us sends what it runs now; and whoever leaves runs nothing any more.
        is_current = exchange.leaving or exchange.epoch == self._state.epoch
        lost: list[DebtName] = []
        for name in self._state.debts.blocks[key_of(worker)]:
            if (name.job_id, name.index) in committed:
                # It begins when the worker has heard that it has committed.
                self._fresh[name] = exchange.number
            elif name in carrying:
                self._fresh.pop(name, None)
            elif is_current and self._fresh.get(name, 0) <= exchange.seen:
                self._fresh.pop(name, None)
                lost.append(name)
        self._park(lost, f"worker {worker.worker} {NOT_RUN}")

    # --- dealing --------------------------------------------------------------------------------

    def deal(self, now: Instant, may_deliver: Callable[[Worker], bool]) -> Dealt:
        """What is to be delivered by whom, of those who wait for an answer."""
        debts = self._state.debts
        if not len(debts):
            return {}
        debts.wake(now)
        self._take_back(now)
        self._give_up_blocks(now)
        dealt: Dealt = {}
        if not any(place.ready for place in debts.places.values()):
            return dealt
        carriers = self.carriers.all()
        able = [worker for worker in carriers if worker.send is not None and may_deliver(worker)]
        for place in list(debts.places.values()):
            if place.ready and (most := self._most(place)):
                self.carriers.look_for_home(place)
                self._pass_on(place)
                takers = [worker for worker in able if self.carriers.may_take(worker, place)]
                self._deal_out(place, takers, dealt, most)
        return dealt

    def _most(self, place: Place) -> int:
        """How many entries may be dealt out now, as far as the circuit of the sink is concerned.
        What was in hand when it opened goes on; a half-open one is tried with a single entry."""
        circuit = self._state.circuits.get((SINK, place.name)) if place.kind == EFFECT else None
        if circuit is None or circuit.state is CircuitState.CLOSED:
            return place.owed
        if circuit.state is CircuitState.OPEN:
            return 0
        carried = map(self._state.debts.find, self.hands.names())
        where = (place.kind, place.name)
        return int(not any(o and (o.debt.kind, o.debt.place) == where for o in carried))

    def _deal_out(
        self, place: Place, takers: list[Worker], dealt: Dealt, most: int
    ) -> None:
        """In shares, so that what has no order is delivered side by side."""
        if not takers or not place.ready:
            return
        self._turn += 1
        share = -(-len(place.ready) // len(takers))
        turn = self._turn % len(takers)
        for worker in takers[turn:] + takers[:turn]:
            deliveries = self._fill(worker, place, share, most)
            most -= len(deliveries)
            if deliveries:
                sink = self._encoded[place.name] if place.kind == EFFECT else b""
                parcel = Parcel(place.kind, place.name, sink, tuple(deliveries))
                dealt.setdefault(worker.worker, []).append(parcel)

    def _fill(self, worker: Worker, place: Place, share: int, most: int) -> list[Delivery]:
        key, deliveries = key_of(worker), list[Delivery]()
        heads = list(islice(place.ready.values(), ENTRIES_MOST + len(self._elsewhere)))
        for count, head in enumerate(heads):
            if count >= share and deliveries:
                break
            if worker.worker in self._elsewhere.get(head.name, ()):
                continue
            # Those behind it go along: whoever delivers keeps them in their order.
            for owing in chain((head,), place.behind(head)):
                entry = self._entries.of(owing)
                size = len(entry.body) + len(entry.key) + ENVELOPE_BYTES
                if len(deliveries) >= most or self.hands.is_full(key, size):
                    return deliveries
                self._state.debts.take(owing)
                self.hands.give(worker, owing.name, size, worker.number)
                deliveries.append(
                    Delivery(
                        owing.name, entry.key, entry.body, self.idempotency_key(owing),
                        owing.debt.tries,
                    )
                )  # fmt: skip
        return deliveries

    def idempotency_key(self, owing: Owing) -> str:
        log_id = self._state.log_at(owing.position)
        return idempotency_key(log_id, owing.name, owing.position)

    def concern(self, here: tuple[WorkerId, int]) -> bool:
        """Whether this incarnation has, or should have, something in hand."""
        return here in self.hands or here in self._state.debts.blocks

    def has_ready(self) -> bool:
        """Whether anything is owed that somebody who is there could deliver now."""
        able, places = self.carriers.living(), self._state.debts.places.values()
        ready = [place for place in places if place.ready]
        return any(self.carriers.may_take(worker, place) for place in ready for worker in able)

    # --- who is gone ----------------------------------------------------------------------------

    def _take_back(self, now: Instant) -> None:
        for name, incarnation in self.hands:
            if not self.carriers.is_there(name, incarnation):
                self._state.debts.put_back(self.hands.empty((name, incarnation)))

    def _give_up_blocks(self, now: Instant) -> None:
        for (name, incarnation), blocks in list(self._state.debts.blocks.items()):
            if now >= self.carriers.gone_at(name, incarnation):
                self._park(
                    tuple(blocks), f"worker {name} ran the block and was not heard of since"
                )

    def _pass_on(self, place: Place) -> None:
        """Where everybody who is there has said that an entry is for others, there are none."""
        stuck = [name for name in self._elsewhere if name in place.ready]
        if not stuck:
            return
        takers = {w.worker for w in self.carriers.living() if self.carriers.may_take(w, place)}
        for name in stuck:
            owing = place.ready[name]
            if not takers or not takers <= self._elsewhere[name]:
                continue
            del self._elsewhere[name]
            if place.kind == FILE:
                self._park((name,), f"{_host_of(place.name)} is gone")
            else:
                self._fail(owing, f"no worker can deliver to {place.name}", ACTOR)

    def _park(self, names: Iterable[DebtName], error: str) -> None:
        owed = tuple(name for name in names if self._state.debts.find(name) is not None)
        if owed:
            self._coordinator.execute(c.ParkEffects(names=owed, error=error), actor=ACTOR)

    # --- what others want to know ---------------------------------------------------------------

    def next_due(self) -> Instant:
        """When something has to be looked at that nothing announces; NEVER for nothing."""
        debts = self._state.debts
        if not len(debts):
            return NEVER
        now = self._coordinator.now()
        dues = [debts.next_wake()]
        dues += self.carriers.dues()
        dues += [self.carriers.gone_at(*key) for key in debts.blocks]
        dues += [self.carriers.gone_at(*key) for key in self.hands]
        return min((due for due in dues if due > now), default=NEVER)

    def prune(self) -> None:
        """Let go of what was noted about entries that are settled."""
        debts = self._state.debts
        self._elsewhere = {n: w for n, w in self._elsewhere.items() if debts.find(n) is not None}
        self._fresh = {n: at for n, at in self._fresh.items() if debts.find(n) is not None}
        self.carriers.prune()

    def standings(self) -> Callable[[Owing], Standing]:
        """How entries stand at this moment, with what only whoever deals them out knows. What is
        the same for many is found out once."""
        state, debts, now = self._state, self._state.debts, self._coordinator.now()
        living = self.carriers.living()
        has_taker: dict[tuple[str, str], bool] = {}

        def standing(owing: Owing) -> Standing:
            holder = self.hands.holder_of(owing.name) if owing.is_away else None
            told = standing_of(state, owing, now, holder or "")
            if told.state != READY:
                return told
            sink = self.carriers.sinks.get(owing.debt.place)
            if owing.debt.kind == EFFECT and sink is None:
                return without_sink(owing)
            place = debts.place_of(owing)
            where = (place.kind, place.name)
            if where not in has_taker:
                has_taker[where] = any(self.carriers.may_take(each, place) for each in living)
            if not has_taker[where]:
                return without_carrier(owing, is_ours=sink is not None and sink.where == SERVER)
            return told

        return standing


def _host_of(place: str) -> str:
    kind, _, name = place.partition(":")
    return f"host {name}" if kind == "host" else f"whoever has {name or place}"


def owed_line(state: State) -> str:
    """How much is owed, in words; empty for nothing."""
    owed, parked = len(state.debts), state.debts.parked
    if not owed:
        return ""
    entries = "1 entry is" if owed == 1 else f"{owed} entries are"
    return f"{entries} owed" + (f", {parked} of them parked" if parked else "")

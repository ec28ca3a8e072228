"""The agent's part in deliveries: parcels in, what became of them out.

What is delivered is told until an answer names the exchange that told it. An entry that is carried
is named in every exchange, so that the coordinator knows whose turn it still is.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import structs

from holdfast.core.owed import FILE
from holdfast.wire.delivery import Bounced, DebtName, Origin, Parcel
from holdfast.wire.exchange import COMMITTED, Done, Exchange, Reply
from holdfast.worker.delivering import GIVEN_BACK, Deliverer, Settled
from holdfast.worker.leftovers import Leftovers
from holdfast.worker.placing import forget_receipts
from holdfast.worker.sinks.outlet import untried
from holdfast.worker.staging import discard_entries

LOOK_MS: Final = 600_000
LOOK_AGAIN_MS: Final = 60_000
"""How long until the next look at what lies about, and where some of it had to stay."""
SIGN_MS: Final = 3_000
"""How often a worker that carries something says so, though it has nothing new to say."""
TOLD_MAX: Final = 5_000
STILL_CARRIED: Final = "it is still under way here for another log"


class Parcels:
    """Without a `deliverer` nothing is delivered here, and what comes is for others.

    Blocks that tasks run after their commits are told of here too (`carry`, `delivered`,
    `bounce`): to the coordinator they are entries like any other.
    """

    def __init__(
        self, deliverer: Deliverer | None = None, leftovers: Leftovers | None = None
    ) -> None:
        self._deliverer = deliverer
        self._leftovers = leftovers
        self._asking: tuple[Origin, ...] = ()
        self._look_at = 0
        self._delivered: list[DebtName] = []
        self._bounced: list[Bounced] = []
        self._blocks: dict[DebtName, None] = {}
        # Bodies of staged files: when their names are known to be given, the receipts go.
        self._placing: dict[DebtName, bytes] = {}
        # What is carried for a log that answers no more: nobody is told what becomes of it.
        self._foreign: set[DebtName] = set()
        self._told_at = 0
        # Whether a harvest may bring anything: most workers never deliver.
        self._is_active = False

    def take_up(self, parcels: Iterable[Parcel], *, may_start: bool) -> None:
        """What came with an answer."""
        for parcel in parcels:
            if self._deliverer is None:
                told = "this worker delivers nothing"
                self._bounced += [
                    Bounced(delivery.name, told, is_elsewhere=True)
                    for delivery in parcel.deliveries
                ]
            elif not may_start:
                self._bounced += [untried(each, GIVEN_BACK) for each in parcel.deliveries]
            else:
                self._give(parcel, self._deliverer)

    def _give(self, parcel: Parcel, deliverer: Deliverer) -> None:
        """What is still under way for another log has to end first: it comes again."""
        mine = tuple(each for each in parcel.deliveries if each.name not in self._foreign)
        if len(mine) < len(parcel.deliveries):
            foreign = (each for each in parcel.deliveries if each.name in self._foreign)
            self._bounced += [untried(each, STILL_CARRIED) for each in foreign]
            parcel = structs.replace(parcel, deliveries=mine)
        if parcel.kind == FILE:
            self._placing.update({each.name: each.body for each in mine})
        if mine:
            deliverer.give((parcel,))
            self._is_active = True

    def leave_log(self, untold: Iterable[Done]) -> None:
        """Another log answers: it neither knows what is carried nor wants to hear of it."""
        for report in untold:
            discard_entries(report.owed)
        self.give_back()
        self._foreign.update(self._carrying())
        self._delivered, self._bounced = [], []
        self._blocks.clear()
        self._placing.clear()

    def _ours(self, settled: Settled) -> Settled:
        """Without what was carried for another log."""
        if not self._foreign:
            return settled
        delivered = [name for name in settled.delivered if name not in self._foreign]
        bounced = [each for each in settled.bounced if each.name not in self._foreign]
        self._foreign.difference_update(settled.delivered)
        self._foreign.difference_update(each.name for each in settled.bounced)
        return Settled(delivered, bounced)

    def gather(self, now_ms: int) -> None:
        """Take in what has ended since, and see now and then what lies about."""
        if self._leftovers is not None and now_ms >= self._look_at:
            self._asking = self._leftovers.find()
            self._look_at = now_ms + (LOOK_AGAIN_MS if self._asking else LOOK_MS)
        if self._deliverer is None or not self._is_active:
            return
        settled = self._ours(self._deliverer.harvest())
        self._is_active = bool(self._deliverer.next_due())
        self._delivered += settled.delivered
        self._bounced += settled.bounced
        for bounced in settled.bounced if self._placing else ():
            self._placing.pop(bounced.name, None)

    # Blocks.

    def carry(self, name: DebtName) -> None:
        self._blocks[name] = None

    def uncarry(self, name: DebtName) -> None:
        """Its commit was not accepted: nobody owes it."""
        self._blocks.pop(name, None)

    def delivered(self, name: DebtName) -> None:
        self._blocks.pop(name, None)
        self._delivered += self._ours(Settled([name], [])).delivered

    def bounce(self, bounced: Bounced) -> None:
        self._blocks.pop(bounced.name, None)
        self._bounced += self._ours(Settled([], [bounced])).bounced

    # What is told.

    def has_news(self) -> bool:
        return bool(self._delivered or self._bounced or self._asking)

    @property
    def asking(self) -> tuple[Origin, ...]:
        """Attempts that are dead and have left staged files: is anybody owed them?"""
        return self._asking

    def tell(
        self, now_ms: int
    ) -> tuple[tuple[DebtName, ...], tuple[Bounced, ...], tuple[DebtName, ...]]:
        """What was delivered, what was not, and what is carried."""
        self._told_at = now_ms
        delivered, bounced = self._delivered[:TOLD_MAX], self._bounced[:TOLD_MAX]
        # What there is no room to tell of this time is still ours.
        unsaid = [*self._delivered[TOLD_MAX:], *(each.name for each in self._bounced[TOLD_MAX:])]
        return tuple(delivered), tuple(bounced), (*self._carrying(), *unsaid)

    def answered(self, told: Exchange, reply: Reply, kept: Iterable[Done]) -> None:
        """What that exchange told is known now. `kept` are results of gangs that wait."""
        if told.leftovers and self._leftovers is not None:
            self._leftovers.remove(told.leftovers, frozenset(reply.removable))
            self._asking = ()
        verdicts = (*reply.verdicts, *reply.stops)
        lost = {each.lease_id for each in verdicts if each.verdict != COMMITTED}
        for report in (*told.done, *kept) if lost else ():
            if report.lease_id in lost:
                discard_entries(report.owed)
        self._delivered = self._delivered[len(told.delivered) :]
        self._bounced = self._bounced[len(told.bounced) :]
        if self._placing:
            placed = (self._placing.pop(name, None) for name in told.delivered)
            forget_receipts(body for body in placed if body is not None)

    def sign_due(self) -> int:
        """When to say something though there is nothing new; zero for never."""
        return self._told_at + SIGN_MS if self._is_carrying() else 0

    def next_due(self) -> int:
        """When something carried here takes too long; zero for never."""
        return 0 if self._deliverer is None else self._deliverer.next_due()

    def is_idle(self) -> bool:
        return not (self._delivered or self._bounced or self._is_carrying())

    # Leaving.

    def give_back(self) -> None:
        """What has not begun does not begin here."""
        if self._deliverer is not None:
            self._deliverer.take_back()

    def finish(self, grace_ms: int) -> None:
        """Have everything that is left told."""
        if self._deliverer is not None:
            settled = self._ours(self._deliverer.close(grace_ms))
            self._delivered += settled.delivered
            self._bounced += settled.bounced

    def _is_carrying(self) -> bool:
        return bool(self._blocks or self.next_due())

    def _carrying(self) -> tuple[DebtName, ...]:
        carried = () if self._deliverer is None else self._deliverer.carrying()
        return (*(name for name in carried if name not in self._foreign), *self._blocks)

"""Making room for what may preempt: which attempts to end, so that the least work is lost."""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from msgspec import Struct

from holdfast.core.ids import NEVER, Instant, JobId, WorkerId
from holdfast.core.shape import Shape
from holdfast.scheduler.fit import suits
from holdfast.scheduler.seats import Amounts, Seat, Slot


class Eviction(Struct, frozen=True):
    """A proposal: end what this slot holds, for a job that may ask for that."""

    worker: WorkerId
    incarnation: int
    slot: int
    job_id: JobId


class Ends(Struct):
    """Slots to be emptied, for how many tasks that makes room, and the work that is lost."""

    slots: list[tuple[Seat, Slot]]
    tasks: int = 0
    lost_ms: int = 0


def ends_for(
    shape: Shape, priority: int, seats: Iterable[Seat], wanted: int, now: Instant
) -> Ends:
    """What to end so that up to `wanted` tasks of this shape find room on these seats.

    The priority, not the rank, is held against the rank a victim was stamped with, which is never
    below the victim's own priority: so two jobs can never evict each other in turn. What was ended
    before and has not gone yet makes room, too: nobody is ended for it twice.
    """
    sites = [_Site(seat, shape, priority, now) for seat in seats if suits(seat, shape)]
    chosen = Ends([], sum(site.settle() for site in sites))
    if chosen.tasks >= wanted:
        return chosen
    offers: list[tuple[int, WorkerId, list[Slot], _Site]] = []
    for site in sites:
        _offer(offers, site, now)
    while offers and chosen.tasks < wanted:
        lost_ms, _, slots, site = heappop(offers)
        chosen.slots.extend((site.seat, slot) for slot in slots)
        chosen.lost_ms += lost_ms
        site.empty(slots)
        chosen.tasks += site.settle()
        _offer(offers, site, now)
    return chosen


def _offer(
    offers: list[tuple[int, WorkerId, list[Slot], "_Site"]], site: "_Site", now: Instant
) -> None:
    """Put the next thing a site has to offer among the others. A worker has one site."""
    slots = site.offer()
    if slots is not None:
        heappush(offers, (_lost(slots, now), site.name, slots, site))


class _Site:
    """A seat while victims are looked for: what is free there once those that go have gone."""

    def __init__(self, seat: Seat, shape: Shape, priority: int, now: Instant) -> None:
        self.seat = seat
        self.name = seat.worker
        self._shape = shape
        self._free: Amounts = seat.free.copy()
        self._slots = len(seat.open_slots)
        held = [slot for slot in seat.slots if slot.shape is not None]
        self._able = [slot for slot in held if not slot.leaving and slot.rank < priority]
        self._able.sort(key=lambda slot: (_lost((slot,), now), slot.number))
        self.empty([slot for slot in held if slot.leaving])

    def empty(self, slots: Sequence[Slot]) -> None:
        for slot in slots:
            if slot.shape is not None:
                self._free.add(slot.shape)
        self._slots += len(slots)
        self._able = [slot for slot in self._able if slot not in slots]

    def settle(self) -> int:
        """Use up the room there is; for how many tasks that was."""
        count = self._free.room(self._shape, self._slots)
        self._free.take(self._shape, count)
        self._slots -= count
        return count

    def offer(self) -> list[Slot] | None:
        """The cheapest slots whose end makes room for one more task here."""
        victims: list[Slot] = []
        for slot in self._able:
            victims.append(slot)
            if self._has_room(victims):
                break
        else:
            return None
        # Gathering the cheapest first may have taken some that the last one made needless.
        for slot in victims[:-1]:
            rest = [other for other in victims if other is not slot]
            if self._has_room(rest):
                victims = rest
        return victims

    def _has_room(self, victims: Sequence[Slot]) -> bool:
        free = self._free.copy()
        for slot in victims:
            if slot.shape is not None:
                free.add(slot.shape)
        return free.room(self._shape, self._slots + len(victims)) > 0


def _lost(slots: Iterable[Slot], now: Instant) -> int:
    """The work that ends with these, in milliseconds; what has not begun is nothing."""
    return sum(max(0, now - slot.since) for slot in slots if slot.since != NEVER)

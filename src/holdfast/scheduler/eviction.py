"""Making room for what may preempt: which attempts to end, so that the least work is lost."""

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

from msgspec import Struct, field

from holdfast.core.ids import NEVER, Instant, JobId, WorkerId
from holdfast.core.shape import Shape
from holdfast.scheduler.fit import suits
from holdfast.scheduler.seats import Amounts, Seat, Slot

Places = list[tuple[Seat, Slot]]
Gangs = Mapping[Shape, Places]
"""Where the members of each gang are. A gang has a shape of its own."""


class Eviction(Struct, frozen=True):
    """A proposal: end what this slot holds, for a job that may ask for that. Where it holds one of
    a gang the others fall with it, and only one of them is named."""

    worker: WorkerId
    incarnation: int
    slot: int
    job_id: JobId


class Ends(Struct):
    """Slots to be emptied, those that fall with them, on which seats that makes room for how many
    tasks, and the work that is lost."""

    slots: Places = field(default_factory=list)
    fallen: Places = field(default_factory=list)
    rooms: list[tuple[Seat, int]] = field(default_factory=list)
    tasks: int = 0
    lost_ms: int = 0


class _Victim(Struct, eq=False):
    """What ends as one thing: a slot, or a gang with all its slots here and elsewhere."""

    here: list[Slot]
    places: Places
    lost_ms: int


def ends_for(
    shape: Shape, priority: int, seats: Iterable[Seat], wanted: int, now: Instant,
    gangs: Gangs | None = None,
) -> Ends:  # fmt: skip
    """What to end so that up to `wanted` tasks of this shape find room on these seats.

    The priority, not the rank, is held against the rank a victim was stamped with, which is never
    below the victim's own priority: so two jobs can never evict each other in turn. What was ended
    before and has not gone yet makes room, too: nobody is ended for it twice.
    """
    search = _Search(shape, priority, now, gangs or {})
    for seat in seats:
        if suits(seat, shape):
            search.add(seat)
    return search.run(wanted)


class _Search:
    """The sites, and what each has to offer, cheapest first."""

    def __init__(self, shape: Shape, priority: int, now: Instant, gangs: Gangs) -> None:
        self._shape, self._priority, self._now = shape, priority, now
        self._gangs = gangs
        self._sites: dict[WorkerId, _Site] = {}
        self._offers: list[tuple[int, WorkerId, int, list[_Victim]]] = []
        self._tasks = 0

    def add(self, seat: Seat) -> None:
        victims: list[_Victim] = []
        seen: set[Shape] = set()
        for slot in seat.slots:
            shape = slot.shape
            if shape is None or slot.leaving or slot.rank >= self._priority or shape in seen:
                continue
            if not shape.gang:
                victims.append(_Victim([slot], [(seat, slot)], self._lost(slot)))
                continue
            seen.add(shape)
            places = self._gangs.get(shape) or [(seat, slot)]
            if all(slot.rank < self._priority for _, slot in places):
                here = [slot for at, slot in places if at is seat]
                lost_ms = sum(self._lost(slot) for _, slot in places)
                victims.append(_Victim(here, places, lost_ms))
        victims.sort(key=lambda victim: (victim.lost_ms, victim.here[0].number))
        site = _Site(seat, self._shape, victims)
        self._sites[seat.worker] = site
        self._tasks += site.settle()

    def run(self, wanted: int) -> Ends:
        ends = Ends()
        if self._tasks < wanted:
            for site in self._sites.values():
                self._offer(site)
        while self._offers and self._tasks < wanted:
            _, name, version, victims = heappop(self._offers)
            for victim in victims if self._sites[name].version == version else ():
                if self._tasks >= wanted:
                    # A gang that fell made room elsewhere.
                    break
                ends.lost_ms += victim.lost_ms
                ends.slots.append(victim.places[0])
                ends.fallen.extend(victim.places[1:])
                self._empty(victim)
        ends.tasks = self._tasks
        ends.rooms = [(site.seat, site.tasks) for site in self._sites.values() if site.tasks]
        return ends

    def _empty(self, victim: _Victim) -> None:
        """The victim goes, wherever it is; each of those sites may have something new to offer."""
        for seat, slot in victim.places:
            site = self._sites.get(seat.worker)
            if site is not None:
                site.empty(slot)
        for name in dict.fromkeys(seat.worker for seat, _ in victim.places):
            site = self._sites.get(name)
            if site is not None:
                self._tasks += site.settle()
                self._offer(site)

    def _offer(self, site: "_Site") -> None:
        """Put the next thing a site has to offer among the others; what it offered before is void.
        A worker has one site, so that names tell equals apart."""
        site.version += 1
        victims = site.offer()
        if victims is not None:
            lost_ms = sum(victim.lost_ms for victim in victims)
            heappush(self._offers, (lost_ms, site.seat.worker, site.version, victims))

    def _lost(self, slot: Slot) -> int:
        """The work that ends with it, in milliseconds; what has not begun is nothing."""
        return max(0, self._now - slot.since) if slot.since != NEVER else 0


class _Site:
    """A seat while victims are looked for: what is free there once those that go have gone, and
    for how many tasks that is counted already."""

    def __init__(self, seat: Seat, shape: Shape, victims: list[_Victim]) -> None:
        self.seat = seat
        self.tasks = 0
        self.version = 0
        self._shape = shape
        self._victims = victims
        self._free: Amounts = seat.free.copy()
        self._slots = len(seat.open_slots)
        for promised, count in seat.promised:
            self._free.take(promised, count)
            self._slots -= count
        for slot in seat.slots:
            if slot.leaving:
                self.empty(slot)

    def empty(self, slot: Slot) -> None:
        if slot.shape is not None:
            self._free.add(slot.shape)
        self._slots += 1
        self._victims = [victim for victim in self._victims if slot not in victim.here]

    def settle(self) -> int:
        """Use up the room there is; for how many tasks that was."""
        count = self._free.room(self._shape, self._slots)
        self._free.take(self._shape, count)
        self._slots -= count
        self.tasks += count
        return count

    def offer(self) -> list[_Victim] | None:
        """The cheapest that make room for one more task here by ending."""
        victims: list[_Victim] = []
        for victim in self._victims:
            victims.append(victim)
            if self._has_room(victims):
                break
        else:
            return None
        # Gathering the cheapest first may have taken some that the last one made needless: the
        # dearest of those are spared first.
        for victim in victims[-2::-1]:
            rest = [other for other in victims if other is not victim]
            if self._has_room(rest):
                victims = rest
        return victims

    def _has_room(self, victims: list[_Victim]) -> bool:
        free, slots = self._free.copy(), self._slots
        for victim in victims:
            for slot in victim.here:
                if slot.shape is not None:
                    free.add(slot.shape)
                slots += 1
        return free.room(self._shape, slots) > 0

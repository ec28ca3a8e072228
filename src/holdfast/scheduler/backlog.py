"""Rows that found no room: what is ended or asked back for them, and what is kept for them."""

from collections.abc import Callable, Iterator, Sequence

from holdfast.core.ids import Instant
from holdfast.core.job import Job
from holdfast.core.shape import Shape
from holdfast.scheduler.claims import claim, claim_all, claim_one, gang_group
from holdfast.scheduler.eviction import Ends, Eviction, Places, ends_for
from holdfast.scheduler.fit import Choice, suits
from holdfast.scheduler.gangs import groups
from holdfast.scheduler.line import COUNTED, Demand, Line
from holdfast.scheduler.seats import Seat
from holdfast.scheduler.shares import Shares

Allowed = Callable[[Line, Job], int]
"""How many more tasks of a job bounds would let start."""


class Backlog:
    """`seats` are all workers that may be given work, `placeable` those where something can be
    placed now, `queued` the slots where something waits to begin. `hurried` are those of them that
    a blocked row has use for."""

    def __init__(
        self, seats: Sequence[Seat], placeable: Sequence[Seat], queued: Places,
        shares: Shares | None, allowed: Allowed, now: Instant,
    ) -> None:  # fmt: skip
        self.evictions: list[Eviction] = []
        self.hurried: Places = []
        self._seats, self._placeable = seats, placeable
        self._choices: dict[bool, Choice] = {}
        # The least urgent are asked back first, and looked at no longer than there are any.
        self._queued = sorted(queued, key=lambda place: -place[1].rank)
        self._shares, self._allowed, self._now = shares, allowed, now
        self._blocked: list[Line] = []
        # A namespace keeps room for one task at a time from its equals.
        self._claimants: set[str] = set()
        self._reserved: tuple[Line, int] | None = None
        self._members: dict[Shape, Places] | None = None

    def reserve(self, line: Line) -> None:
        """There is no room for this row, which waiting has lifted. The first of all such rows keeps
        room for one task, or for its gang, from everybody behind it; that is what its waiting is
        worth, since a row that is served begins again. The others have their turns after it."""
        demand = next(self._demands(line), None)
        if self._reserved is not None or demand is None:
            return
        wanted = demand.count if line.shape.gang else 1
        claimed = claim_all(line.shape, wanted, self._able(line, demand))
        if claimed:
            self._reserved = (line, claimed)
            self._hurry(line, wanted)

    def block(self, line: Line) -> None:
        """There is no room for this row: it waits, and those behind it leave it some."""
        self._blocked.append(line)
        if line.shape.preempts:
            self._evict(line)
        self._hurry(line, COUNTED)
        namespace = line.shape.namespace
        if self._shares is not None and namespace not in self._claimants:
            demand = next(self._demands(line), None)
            if demand and claim_one(line, self._able(line, demand), self._shares):
                self._claimants.add(namespace)

    def keep(self) -> None:
        """Everything of a higher rank was looked at: what still waits of it keeps its room."""
        contested = [seat for seat in self._placeable if seat.claims]
        for seat in contested:
            seat.claims.clear()
        for line in self._blocked:
            self._claim(line, contested)
        self.clear()

    def clear(self) -> None:
        """There is nothing that anybody could take from those that wait."""
        self._blocked.clear()
        self._claimants.clear()

    def _demands(self, line: Line) -> Iterator[Demand]:
        job = line.job
        return iter(()) if job is None else line.demands(self._allowed(line, job))

    def _claim(self, line: Line, contested: list[Seat]) -> None:
        shape, owed = line.shape, 0
        if self._reserved is not None and self._reserved[0] is line:
            owed = self._reserved[1]
        for seat, count in line.promised:
            owed += claim(seat, shape, count)
        for demand in self._demands(line):
            # Room that is on its way where others end is room enough.
            wanted = demand.count - min(owed, demand.count)
            owed -= demand.count - wanted
            able = self._able(line, demand)
            if not shape.gang:
                # What is free and was kept from it by its equals is the first to be kept for it.
                suited = (seat for seat in contested if suits(seat, shape))
                for seat in filter(demand.welcomes, suited):
                    room = seat.free.room(shape, len(seat.open_slots))
                    wanted -= claim(seat, shape, min(wanted, room))
            if wanted > 0:
                claim_all(shape, wanted, able)

    def _able(self, line: Line, demand: Demand) -> list[Seat]:
        """The workers whose room it waits for."""
        is_gang = line.shape.gang
        choice = self._choices.get(is_gang)
        if choice is None:
            choice = self._choices[is_gang] = Choice(self._seats if is_gang else self._placeable)
        able = choice.suited(line.shape)
        if demand.is_choosy:
            able = list(filter(demand.welcomes, able))
        return gang_group(line, demand.count, able) if is_gang else able

    def _hurry(self, line: Line, most: int) -> None:
        """Ask back what has not begun in slots of a lower rank, as many as the row may need."""
        rank = line.asker.rank
        if not self._queued or self._queued[-1][1].rank >= rank:
            return
        for demand in self._demands(line):
            wanted = min(demand.count, most)
            passed: Places = []
            while wanted > 0 and self._queued and self._queued[-1][1].rank < rank:
                seat, slot = self._queued.pop()
                if demand.welcomes(seat) and suits(seat, line.shape):
                    self.hurried.append((seat, slot))
                    wanted -= 1
                else:
                    passed.append((seat, slot))
            self._queued.extend(reversed(passed))

    def _evict(self, line: Line) -> None:
        job = line.job
        if job is None:
            return
        for demand in self._demands(line):
            ends = self._ends(line, demand)
            for seat, slot in (*ends.slots, *ends.fallen):
                slot.leaving = seat.is_used = True
            for seat, slot in ends.slots:
                self.evictions.append(
                    Eviction(seat.worker, seat.incarnation, slot.number, job.job_id)
                )
            left = demand.count
            for seat, count in ends.rooms:
                count = min(count, left)
                left -= count
                if count:
                    seat.is_used = True
                    seat.promised.append((line.shape, count))
                    line.promised.append((seat, count))

    def _ends(self, line: Line, demand: Demand) -> Ends:
        """The cheapest way to make room: anywhere, or for a gang in one group and for all."""
        job = line.job
        seats = self._seats
        if demand.is_choosy:
            seats = list(filter(demand.welcomes, seats))
        is_gang = line.shape.gang
        by = job.spec.placing.gang_by if job is not None else ""
        found = [
            ends_for(line.shape, line.row.priority, group, demand.count, self._now, self._gangs())
            for group in (groups(seats, by) if is_gang else [seats])
        ]
        able = [ends for ends in found if not is_gang or ends.tasks >= demand.count]
        return min(able, key=lambda ends: ends.lost_ms, default=Ends())

    def _gangs(self) -> dict[Shape, Places]:
        """Where the members of each gang are, looked up once."""
        if self._members is None:
            self._members = {}
            for seat in self._seats:
                for slot in seat.slots:
                    if slot.shape is not None and slot.shape.gang:
                        self._members.setdefault(slot.shape, []).append((seat, slot))
        return self._members

"""Placing waiting tasks on slots. Pure: a look at rows and seats goes in, a plan comes out.

A plan holds no authority: the coordinator turns each pick into a grant, and the grant is judged
like any command. The row of the highest rank goes first; among equals the namespace that holds
least; then whoever came first. A row that cannot be placed keeps room from those behind it, so
that neither its size nor a stream of others starves it.

A slot holds one running attempt and a short run of leased ones of the same shape behind it, so
that small tasks travel in batches.
"""

from collections.abc import Callable
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import chain

from holdfast.core.ids import Index, JobId, WorkerId
from holdfast.core.job import Job
from holdfast.core.ready import Row, take
from holdfast.core.shape import Shape
from holdfast.scheduler.backlog import Backlog
from holdfast.scheduler.fit import suits_elsewhere
from holdfast.scheduler.gangs import place_gang
from holdfast.scheduler.line import NOBODY, Line, Room, needs, roomy
from holdfast.scheduler.outlook import Outlook, allowed
from holdfast.scheduler.proposals import Hurry, Pick, Plan
from holdfast.scheduler.seats import Seat, Slot

LONGEST_RUN = 512
"""Whatever a round costs is shared by the tasks it gives out: four times as many halve a life."""
MOST_JOBS = 128
"""Jobs of one task are granted one by one, which would make a round of so many too long."""
ONE_CPU = 1_000
RUN_MS = 50
"""A run is about this much work, so that what waits in a slot never waits long."""
RUN_BYTES = 8 * 1024 * 1024
"""And about so much of payloads, so that an answer to a worker is never too large to send."""

FIRST = (Index(0),)

PORTIONS = 4
"""Free room is shared out between namespaces a part of what is left at a time."""

SINGLES = 64
"""Jobs of one task are looked at so many at a time, before it is known how many have room."""

TURNS = 32
"""And never more at a time than such a part of all there is, for each of them."""

def run_length(mean_us: int | None) -> int:
    """One task until the first has shown how long it takes; then about `RUN_MS` of work."""
    if mean_us is None:
        return 1
    return max(1, min(LONGEST_RUN, RUN_MS * 1_000 // max(mean_us, 1)))


def fitting(job: Job, length: int) -> int:
    """How many of a run of such a length are sent at a time, as far as the next of them tell."""
    if len(job.states) == 1:
        return min(length, MOST_JOBS)
    if job.payloads is None:
        size = len(job.shared) * length
    else:
        size = sum(map(len, filter(None, job.payloads[job.cursor : job.cursor + length])))
    return length if size <= RUN_BYTES else max(1, length * RUN_BYTES // size)


def plan(outlook: Outlook) -> Plan:
    """What to do now. The seats are used up as the plan grows."""
    return _Planner(outlook).run()


class _Planner:
    def __init__(self, outlook: Outlook) -> None:
        self._plan = Plan()
        self._look = outlook
        self._seated = 0
        # Workers with something rare come last: what does not need it leaves it to others.
        self._seats = sorted(outlook.seats, key=_rarity)
        self._lines = [
            Line(row, outlook.rank_of(row), self._length(row), is_simple=self._is_simple(row))
            for row in outlook.rows
            if row.head is not None
        ]
        if outlook.shunned is not None:
            self._shun(outlook.shunned)
        self._queued: list[tuple[Seat, Slot]] = []
        self._placeable = self._find_placeable()
        self._open = sum([len(seat.open_slots) for seat in self._placeable])
        # What is used up is looked at once, and not by every row.
        wanted = zip(*(needs(line.shape) for line in self._lines), strict=True)
        self._roomy = roomy(self._placeable, tuple(map(min, wanted))) if self._lines else []
        self._namespaces = len({line.shape.namespace for line in self._lines})
        # Nobody needs to know who holds how much as long as only one of them wants something.
        self._shares = outlook.shares() if self._namespaces > 1 else None
        # Not a method of ours: a ring of objects would be left to the collector in every round.
        self._allowed = partial(allowed, outlook)
        self._backlog = Backlog(
            self._seats, self._placeable, self._queued, self._shares, self._allowed, outlook.now
        )

    def run(self) -> Plan:
        heap = [self._entry(number) for number in range(len(self._lines))]
        heapify(heap)
        rank = -heap[0][0] if heap else 0
        waiting: list[Line] = []
        while heap:
            if self._left() <= 0:
                self._plan.is_cut = True
                break
            urgency, share, _, _, number = heappop(heap)
            line = self._lines[number]
            if self._shares is not None and self._shares.of(line.shape.namespace) > share:
                heappush(heap, self._entry(number))
                continue
            if -urgency < rank:
                rank = -urgency
                self._keep_from(rank)
            self._serve(line)
            if line.is_bounded:
                continue
            if line.row.head is None and not line.stranded:
                continue
            if line.is_blocked or (line.row.head is None and line.asker.rank == -urgency):
                if not line.is_lifted:
                    self._backlog.block(line)
                    waiting.append(line)
                    continue
                self._backlog.reserve(line)
                line.fall_back()
            heappush(heap, self._entry(number))
        waiting.sort(key=lambda line: -line.urgency)
        self._plan.waiting = [line.row for line in waiting]
        self._plan.evictions = self._backlog.evictions
        hurried = self._backlog.hurried
        self._plan.hurries = [Hurry(seat.worker, slot.number) for seat, slot in hurried]
        return self._plan

    def _shun(self, shunned: Callable[[Job], frozenset[WorkerId]]) -> None:
        """Keep every row away from where it should not go, if there is another place for it."""
        for line in self._lines:
            there = shunned(line.job) if line.job is not None else frozenset()
            line.shunned = self._can_avoid(there, line.shape) if there else there

    def _left(self) -> int:
        """How many more proposals there may be. A gang is as many as it has members."""
        return self._look.most_picks - len(self._plan.picks) - self._seated

    def _keep_from(self, rank: int) -> None:
        """Everything of a higher rank was looked at: what still waits of it keeps its room."""
        if self._open or any(line.has_rooms for line in self._lines if line.asker.rank <= rank):
            self._backlog.keep()
        else:
            self._backlog.clear()

    def _find_placeable(self) -> list[Seat]:
        """The seats where something may be placed now; the slots that run low are noted with the
        rows that may use them, and those where something waits to begin."""
        by_shape: dict[Shape, list[Line]] = {}
        for line in self._lines:
            by_shape.setdefault(line.shape, []).append(line)
        found: list[Seat] = []
        is_short = all(line.length == 1 for line in self._lines)
        for seat in self._seats:
            is_low = False
            for slot in seat.slots if len(seat.open_slots) < len(seat.slots) else ():
                if is_short and slot.load == 1:
                    # Nothing waits in it, and nothing could: so it is with nearly every slot.
                    continue
                if slot.shape is None or slot.alone or slot.leaving:
                    continue
                if slot.load > 1:
                    self._queued.append((seat, slot))
                for line in by_shape.get(slot.shape, ()):
                    if slot.load * 2 <= line.length and seat.is_listening:
                        line.low.append((seat, slot))
                        is_low = True
            if seat.is_listening and (seat.open_slots or is_low):
                found.append(seat)
        return found

    def _entry(self, number: int) -> tuple[int, float, int, str, int]:
        line = self._lines[number]
        if self._shares is not None:
            line.asker.share = self._shares.of(line.shape.namespace)
        head = line.row.head
        if head is None:
            return (-line.asker.rank, line.asker.share, 0, "", number)
        # One record may hold two jobs; their names tell them apart, not the order of the rows.
        return (-line.asker.rank, line.asker.share, head.position, head.job_id, number)

    def _length(self, row: Row) -> int:
        """How many tasks may stand in a slot. One where slots are counted for more than a
        processor each: a worker may move what waits to a lane that idles, and then more would run
        than fits."""
        job = row.head
        if job is None:
            return 1
        spec, shape = job.spec, row.shape
        own = spec.max_parallel or spec.service.restarts
        counted = own or shape.memory_bytes or shape.gpus or shape.resources
        if counted or shape.cpus_milli > ONE_CPU or self._look.ledger.is_bounded(shape):
            return 1
        return fitting(job, self._look.pace(spec))

    def _is_simple(self, row: Row) -> bool:
        """Whether neither the job nor an operator bounds how many of its tasks start."""
        return not row.shape.own and not self._look.ledger.is_bounded(row.shape)

    def _serve(self, line: Line) -> None:
        """Place tasks of this row until its portion is used up, nothing is left of it, or there
        is no room for more of its shape."""
        line.prepare(self._roomy)
        portion = self._portion(line)
        before = self._open
        while (job := line.row.head) is not None:
            left = portion - (before - self._open)
            if line.length == 1:
                # Runs are dealt evenly over all their slots: a row of them is cut before or after.
                left = min(left, self._left())
            if left <= 0:
                break
            if line.is_simple and len(job.states) == 1 and self._serve_singles(line, left):
                continue
            serve = self._serve_gang if job.spec.placing.gang else self._serve_job
            is_done = serve(line, job, left)
            if line.is_blocked:
                break
            if is_done:
                line.next_job()
        if line.is_served:
            line.fall_back()

    def _portion(self, line: Line) -> int:
        """How many slots it may open before others have their turn."""
        if self._shares is None:
            return max(1, self._open)
        slots = self._open // (PORTIONS * self._namespaces)
        one = self._shares.of_one(line.shape) * TURNS * self._namespaces
        return max(1, min(slots, int(1 / one)) if one else slots)

    def _serve_singles(self, line: Line, portion: int) -> int:
        """Jobs of one task that nothing bounds, a slot for each: a hundred thousand of them are
        as fast as a few large ones. How many were placed."""
        placed = 0
        while placed < portion:
            jobs = line.row.singles(min(portion - placed, SINGLES))
            rooms = line.open_slots(len(jobs))
            self._pick_each(line, rooms, [(job.job_id, FIRST) for job in jobs[: len(rooms)]])
            for _ in rooms:
                line.next_job()
            line.give_back(rooms)
            placed += len(rooms)
            if not rooms or len(rooms) < len(jobs):
                break
        if placed:
            self._note(line, placed, placed)
        return placed

    def _serve_job(self, line: Line, job: Job, portion: int) -> bool:
        """Place tasks of one job; whether it has no more that could be placed."""
        allowed = self._allowed(line, job)
        if allowed <= 0:
            line.is_blocked = line.is_bounded = True
            return False
        most = line.most(portion, allowed)
        indices = line.take(job, self._look.now, most)
        is_last = len(indices) < most
        if job.due:
            indices = self._place_apart(line, job, indices)
        if not indices:
            return is_last
        rooms = line.rooms(len(indices), portion)
        if not rooms:
            line.is_blocked = True
            return False
        opened = sum([room.slot.load == 0 for room in rooms])
        placed = self._deal(line, job, indices, rooms)
        line.taken += placed
        self._note(line, placed, opened)
        return is_last and placed == len(indices)

    def _place_apart(self, line: Line, job: Job, indices: list[Index]) -> list[Index]:
        """Place those that may not go anywhere: one that ended in a death goes alone to an empty
        slot, one that failed goes to another worker while there is one. The others are left."""
        tasks = job.tasks or {}
        plain: list[Index] = []
        for index in indices:
            task = tasks.get(index)
            if task is None or not (task.alone or task.avoid):
                plain.append(index)
                continue
            avoid = self._avoided(task.avoid, line.shape)
            if not task.alone and not avoid:
                plain.append(index)
                continue
            room = line.open_slot(avoid)
            line.set_apart(index, room, avoid)
            if room is not None:
                self._pick(line, job, room, (index,), alone=task.alone)
                self._note(line, 1, 1)
                if not task.alone:
                    line.give_back((room,))
        return plain

    def _avoided(self, worker: WorkerId, shape: Shape) -> WorkerId:
        """The worker to avoid, if there is another."""
        if not worker or worker in self._can_avoid(frozenset((worker,)), shape):
            return worker
        return NOBODY

    def _can_avoid(self, workers: frozenset[WorkerId], shape: Shape) -> frozenset[WorkerId]:
        """These workers, if there is another beside them all; nobody, if there is none."""
        known = chain(self._seats, self._look.others())
        return workers if suits_elsewhere(known, shape, workers) else frozenset()

    def _deal(self, line: Line, job: Job, indices: list[Index], rooms: list[Room]) -> int:
        """Deal the tasks out evenly, as far as they go; how many went."""
        if line.length == 1:
            self._pick_each(line, rooms, [(job.job_id, (index,)) for index in indices])
            return len(rooms)
        start = 0
        for place, room in enumerate(rooms):
            left = len(indices) - start
            share = min(room.space, -(-left // (len(rooms) - place)))
            self._pick(line, job, room, tuple(indices[start : start + share]), alone=False)
            start += share
        line.give_back(rooms)
        return start

    def _pick_each(
        self, line: Line, rooms: list[Room], tasks: list[tuple[JobId, tuple[Index, ...]]]
    ) -> None:
        """One task a room, in the order of both: the way of nearly every task."""
        rank, add = line.asker.rank, self._plan.picks.append
        for room, (job_id, indices) in zip(rooms, tasks, strict=False):
            seat, slot = room.seat, room.slot
            seat.is_used = True
            slot.load += 1
            if slot.rank != rank:
                slot.rank = max(slot.rank, rank)
            room.space -= 1
            add(Pick(seat.worker, seat.incarnation, slot.number, job_id, indices, False, rank))

    def _pick(
        self, line: Line, job: Job, room: Room, indices: tuple[Index, ...], *, alone: bool
    ) -> None:
        seat, slot, rank = room.seat, room.slot, line.asker.rank
        count = len(indices)
        seat.is_used = True
        slot.load += count
        slot.alone = alone
        slot.rank = max(slot.rank, rank)
        room.space -= count
        self._plan.picks.append(
            Pick(seat.worker, seat.incarnation, slot.number, job.job_id, indices, alone, rank)
        )

    def _serve_gang(self, line: Line, job: Job, portion: int) -> bool:
        """All tasks of the job, or nothing: also while one of them waits for its time."""
        indices = take(job, self._look.now, job.count)
        if len(indices) < job.count or line.taken:
            return True
        if self._allowed(line, job) < len(indices):
            line.is_blocked = line.is_bounded = True
            return False
        pick = place_gang(line, job, indices, self._placeable)
        if pick is None:
            line.is_blocked = True
            return False
        self._plan.gangs.append(pick)
        self._seated += len(indices)
        line.taken += len(indices)
        self._note(line, len(indices), len(indices))
        return True

    def _note(self, line: Line, tasks: int, opened: int) -> None:
        self._open -= opened
        if not line.is_served:
            line.is_served = True
            self._plan.served.append(line.row)
        if self._shares is not None:
            self._shares.note(line.shape, opened)
        if self._look.ledger.is_bounded(line.shape):
            self._look.ledger.note(line.shape, tasks)


def _rarity(seat: Seat) -> tuple[bool, int, WorkerId]:
    total = seat.total
    return (bool(total.gpus or total.named), -len(seat.open_slots), seat.worker)

"""A plan judged by brute force: who waits after it, and whether there would have been room."""

from collections import Counter
from collections.abc import Iterable

from holdfast.core.ids import Index, WorkerId
from holdfast.core.job import Job
from holdfast.core.ready import take
from holdfast.core.shape import Shape, shape_of
from holdfast.scheduler.fit import suits
from holdfast.scheduler.gangs import groups
from holdfast.scheduler.ledger import KEY, Name, names_of
from holdfast.scheduler.plan import plan
from holdfast.scheduler.seats import Seat
from holdfast.testing.floor import Floor


class Look:
    """A cluster before and after a plan, and what still waits then."""

    def __init__(self, floor: Floor) -> None:
        self.floor = floor
        self.outlook = floor.outlook()
        self.before = {seat.worker: seat for seat in floor.seats()}
        self.ranks = {
            (row.priority, row.shape): self.outlook.rank_of(row) for row in self.outlook.rows
        }
        world = floor.world
        self._ready = {
            (job.job_id, index)
            for job in world.state.jobs.values()
            for index in take(job, world.now, job.count)
        }
        self._active = Counter({job.job_id: job.active for job in world.state.jobs.values()})
        self.plan = plan(self.outlook)
        for pick in self.plan.picks:
            self._active[pick.job_id] += len(pick.indices)
        served = {(row.priority, row.shape) for row in self.plan.served}
        self.ranks |= {key: key[0] for key in served}
        floor.carry_out(self.plan)
        self.after = {seat.worker: seat for seat in floor.seats()}

    def rank_of(self, job: Job) -> int:
        return self.ranks[(job.spec.priority, shape_of(job))]

    def waiting(self) -> list[tuple[Job, Index]]:
        """What could be leased and was not, bounds permitting."""
        now, jobs = self.floor.world.now, self.floor.world.state.jobs
        return [
            (job, index)
            for job in jobs.values()
            if (job.spec.priority, shape_of(job)) in self.ranks and not self.is_bounded(job)
            for index in take(job, now, job.count)
            # An attempt that this plan ended waits as well, but not in this plan.
            if (job.job_id, index) in self._ready
        ]

    def those_before(self, job: Job) -> list[Job]:
        """Jobs that wait and have a right to room before this one."""
        now, rank = self.floor.world.now, self.rank_of(job)
        return [
            other
            for other in self.floor.world.state.jobs.values()
            if (other.spec.priority, shape_of(other)) in self.ranks
            and take(other, now, 1)
            and (
                self.rank_of(other) > rank
                or (
                    self.rank_of(other) == rank
                    and (other.spec.namespace != job.spec.namespace or self.is_lifted(other))
                )
            )
        ]

    def is_lifted(self, job: Job) -> bool:
        """Whether waiting has made it more urgent than its priority: the first of these keeps room
        for one task from everybody behind it, its equals too, or it might never have its turn."""
        return self.rank_of(job) > job.spec.priority

    def is_bounded(self, job: Job) -> bool:
        """Whether a bound keeps one more task of this job, or a whole gang, from starting."""
        floor, shape = self.floor, shape_of(job)
        count = job.count if shape.gang else 1
        # What this plan ended counted while it was made.
        if job.spec.max_parallel and self._active[job.job_id] + count > job.spec.max_parallel:
            return True
        held: Counter[tuple[str, str]] = Counter()
        for seat in self.after.values():
            for slot in seat.slots:
                if slot.shape is not None:
                    held.update(names_of(slot.shape))
        caps = [(name, cap) for name, cap in floor.caps.items() if name in set(names_of(shape))]
        caps += [((KEY, key), cap) for key, cap in shape.keys if cap]
        started = self.started()
        if self._exceeds_amounts(shape, count):
            return True
        return any(held[name] + count > cap for name, cap in caps) or any(
            started[name] + count > floor.tokens[name]
            for name in names_of(shape)
            if name in floor.tokens
        )

    def _exceeds_amounts(self, shape: Shape, count: int) -> bool:
        """Whether so many more of a shape would take more together than they may."""
        return any(
            taken(shape, resource)
            and self.taken_by(self.after, name, resource) + count * taken(shape, resource) > most
            for name in names_of(shape)
            for resource, most in self.floor.amounts.get(name, {}).items()
        )

    def taken_by(self, seats: dict[WorkerId, Seat], name: Name, resource: str) -> int:
        """How much all slots take that are held for what has this name."""
        return sum(
            taken(slot.shape, resource)
            for seat in seats.values()
            for slot in seat.slots
            if slot.shape is not None and name in set(names_of(slot.shape))
        )

    def started(self) -> Counter[tuple[str, str]]:
        jobs = self.floor.world.state.jobs
        found: Counter[tuple[str, str]] = Counter()
        for pick in self.plan.picks:
            for name in names_of(shape_of(jobs[pick.job_id])):
                found[name] += len(pick.indices)
        for gang in self.plan.gangs:
            for name in names_of(shape_of(jobs[gang.job_id])):
                found[name] += len(gang.members)
        return found

    def without(self, rank: int) -> dict[WorkerId, Seat]:
        """The cluster as it would be had nothing below this rank been placed."""
        seats = {seat.worker: seat for seat in self.floor.seats()}
        jobs = self.floor.world.state.jobs
        for pick in self.plan.picks:
            is_new = self.before[pick.worker].slots[pick.slot].shape is None
            if pick.rank < rank and is_new:
                self._take_out(seats[pick.worker], pick.slot, shape_of(jobs[pick.job_id]))
        for gang in self.plan.gangs:
            if gang.rank < rank:
                for member in gang.members:
                    shape = shape_of(jobs[gang.job_id])
                    self._take_out(seats[member.worker], member.slot, shape)
        return seats

    def _take_out(self, seat: Seat, number: int, shape: Shape) -> None:
        slot = seat.slots[number]
        if slot.shape is not None:
            slot.shape, slot.load = None, 0
            seat.open_slots.append(number)
            seat.free.add(shape)

    def fits(self, job: Job, index: Index, seats: Iterable[Seat]) -> bool:
        """Whether this task, or the whole of its gang, has room on seats that listen."""
        shape = shape_of(job)
        able = [seat for seat in seats if seat.is_listening and suits(seat, shape)]
        if shape.gang:
            is_whole = len(take(job, self.floor.world.now, job.count)) == job.count
            return is_whole and any(
                sum(seat.free.room(shape, len(seat.open_slots)) for seat in group) >= job.count
                for group in groups(able, job.spec.placing.gang_by)
            )
        task = (job.tasks or {}).get(index)
        avoid = task.avoid if task is not None else ""
        if not any(suits(seat, shape) for seat in self.after.values() if seat.worker != avoid):
            avoid = ""
        return any(
            seat.free.room(shape, len(seat.open_slots)) > 0
            for seat in able
            if seat.worker != avoid
        )


def taken(shape: Shape, resource: str) -> int:
    """How much of a resource one task takes."""
    own = {"cpus": shape.cpus_milli, "memory": shape.memory_bytes, "gpus": shape.gpus}
    return own[resource] if resource in own else dict(shape.resources).get(resource, 0)

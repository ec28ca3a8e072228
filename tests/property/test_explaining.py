"""What is said about a task that waits is so: it is next exactly where the next round gives it
out, and every reason that is named holds when it is looked at on its own."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.coordinator.seats import Worker, held_by_all
from holdfast.core.circuit import CircuitState
from holdfast.core.decision import Refused
from holdfast.core.ids import NEVER, Index
from holdfast.core.job import Job, state_of
from holdfast.core.shape import Shape, shape_of
from holdfast.core.task import FINISHED, TaskState
from holdfast.scheduler.codes import CODES
from holdfast.scheduler.explain import explain_job
from holdfast.scheduler.fit import meets
from holdfast.scheduler.ledger import names_of
from holdfast.scheduler.reasons import Reason
from holdfast.testing.town import Town

PLAIN = (
    "queue_paused", "max_parallel", "gang_not_ready", "backing_off", "not_begun", "no_worker",
    "retry_budget", "circuit_open",
)  # fmt: skip


def cannot_ever(worker: Worker, shape: Shape) -> bool:
    """Whether a worker has less than a task needs, or is not such a one, were it empty."""
    capacity = worker.capacity
    attributes = dict(worker.hello.attributes) if worker.hello else {}
    offers = dict(capacity.resources)
    return (
        capacity.slots < 1
        or capacity.cpus_milli < shape.cpus_milli
        or capacity.memory_bytes < shape.memory_bytes
        or capacity.gpus < shape.gpus
        or any(offers.get(name, 0) < wanted for name, wanted in shape.resources)
        or any(not meets(attributes, wish) for wish in shape.constraints if not wish.weight)
    )


class Judge:
    """Looks at one reason at a time, with nothing but the state and the workers."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.state = town.state
        self.now = town.service.coordinator.now()
        known = town.service.exchanges.workers.values()
        self.workers = {worker.worker: worker for worker in known if not worker.has_left}
        self.held = held_by_all(self.state, self.workers.values())

    def holds(self, reason: Reason, job: Job, index: Index) -> bool:
        code = reason.code
        scope = code.partition("_")[2]
        if code.startswith(("limit_", "rate_")):
            return self._is_bounded(job, scope)
        return bool(getattr(self, f"_{code}")(reason, job, index))

    def all_of(self, job: Job, index: Index) -> set[str]:
        """Of the reasons that need no plan to be seen, those that hold."""
        nothing = Reason(code="next", sentence="")
        return {code for code in PLAIN if getattr(self, f"_{code}")(nothing, job, index)}

    def _room(self, worker: Worker, shape: Shape, *, but: str = "") -> int:
        """For how many of a shape there is room now."""
        if worker.worker == but or cannot_ever(worker, shape) or not self._takes(worker):
            return 0
        seat = worker.seat(self.state)
        return seat.free.room(shape, len(seat.open_slots))

    def _takes(self, worker: Worker) -> bool:
        registry = self.town.service.exchanges.registry
        is_cordoned = worker.worker in self.state.cordoned
        return registry.is_alive(worker) and not worker.draining and not is_cordoned

    def _is_bounded(self, job: Job, scope: str) -> bool:
        shape = shape_of(job)
        mine = {name for name in names_of(shape) if name[0] == scope}
        bounds = {name: self.state.limits.get(name) for name in mine}
        own = {("key", key): cap for key, cap in shape.keys if cap}
        return any(limit is not None for limit in bounds.values()) or bool(own.keys() & mine)

    def _no_worker(self, *_: object) -> bool:
        return not self.workers

    def _too_large(self, reason: Reason, job: Job, index: Index) -> bool:
        return all(cannot_ever(worker, shape_of(job)) for worker in self.workers.values())

    _constraint_unmet = _too_large

    def _workers_busy(self, reason: Reason, job: Job, index: Index) -> bool:
        shape = shape_of(job)
        some = [self.workers[name] for name in reason.workers]
        return bool(some) and all(
            self._takes(worker) and not cannot_ever(worker, shape) and not self._room(worker, shape)
            for worker in some
        )

    def _workers_cordoned(self, reason: Reason, job: Job, index: Index) -> bool:
        return set(reason.workers) <= set(self.state.cordoned)

    def _workers_draining(self, reason: Reason, job: Job, index: Index) -> bool:
        return all(self.workers[name].draining for name in reason.workers)

    def _workers_silent(self, reason: Reason, job: Job, index: Index) -> bool:
        alive = self.town.service.exchanges.registry.is_alive
        return not any(alive(self.workers[name]) for name in reason.workers)

    def _workers_avoided(self, reason: Reason, job: Job, index: Index) -> bool:
        task = (job.tasks or {})[index]
        others = [worker for worker in self.workers.values() if worker.worker != task.avoid]
        return reason.workers == (task.avoid,) and any(
            self._takes(worker) and not cannot_ever(worker, shape_of(job)) for worker in others
        )

    def _max_parallel(self, reason: Reason, job: Job, index: Index) -> bool:
        needed = job.count if job.spec.placing.gang else 1
        running = max(job.active, self.held.get(shape_of(job), 0))
        return running + needed > job.spec.max_parallel > 0

    def _dependency(self, reason: Reason, job: Job, index: Index) -> bool:
        return job.blocked and any(
            state_of(self.state.jobs[after.job_id], Index(each)) not in FINISHED
            for after in job.after
            for each in range(self.state.jobs[after.job_id].count)
        )

    def _dependency_failed(self, reason: Reason, job: Job, index: Index) -> bool:
        return job.blocked

    def _not_begun(self, reason: Reason, job: Job, index: Index) -> bool:
        task = (job.tasks or {}).get(index)
        times = task or job
        is_delayed = times.not_before > self.now and (task is None or not task.attempt)
        return is_delayed or times.not_before_wall > self.town.clock.wall()

    def _backing_off(self, reason: Reason, job: Job, index: Index) -> bool:
        task = (job.tasks or {}).get(index)
        is_waiting = task is not None and task.attempt > 0 and task.not_before > self.now
        return is_waiting and not self._retry_budget(reason, job, index)

    def _retry_budget(self, reason: Reason, job: Job, index: Index) -> bool:
        task = (job.tasks or {}).get(index)
        return task is not None and NEVER < task.wanted < task.not_before > self.now

    def _circuit_open(self, reason: Reason, job: Job, index: Index) -> bool:
        circuit = self.state.circuits.get(("function", shape_of(job).circuit))
        return circuit is not None and circuit.state is not CircuitState.CLOSED

    def _queue_paused(self, reason: Reason, job: Job, index: Index) -> bool:
        return job.spec.queue in self.state.paused

    def _gang_not_ready(self, reason: Reason, job: Job, index: Index) -> bool:
        ready = [each for each in map(Index, range(job.count)) if self._is_ready(job, each)]
        return job.spec.placing.gang and len(ready) < job.count

    def _is_ready(self, job: Job, index: Index) -> bool:
        times = (job.tasks or {}).get(index) or job
        is_due = times.not_before <= self.now and times.not_before_wall == NEVER
        return state_of(job, index) is TaskState.WAITING and is_due and not job.blocked

    def _gang_room(self, reason: Reason, job: Job, index: Index) -> bool:
        by, shape = job.spec.placing.gang_by, shape_of(job)
        rooms: Counter[str] = Counter()
        for worker in self.workers.values():
            attributes = dict(worker.hello.attributes) if worker.hello else {}
            if not by or by in attributes:
                rooms[attributes.get(by, "")] += self._room(worker, shape)
        if not by:
            return rooms.total() < job.count
        return max(rooms.values(), default=0) < job.count

    def _making_room(self, reason: Reason, job: Job, index: Index) -> bool:
        return job.spec.placing.preempts

    def _in_line(self, reason: Reason, job: Job, index: Index) -> bool:
        task = (job.tasks or {}).get(index)
        return any(self._room(worker, shape_of(job)) for worker in self.workers.values()) and (
            task is None or not task.lease_id
        )

    def _kept_for_others(self, reason: Reason, job: Job, index: Index) -> bool:
        waiting = {each.job_id for each, _ in self.town.waiting()}
        return self._in_line(reason, job, index) and set(reason.jobs) <= waiting

    def _next(self, *_: object) -> bool:
        return True


def judged(seed: int) -> Counter[str]:
    """One town, round by round; how often each reason was given."""
    town = Town(seed)
    seen: Counter[str] = Counter()
    for _ in range(town.dice.randint(2, 6)):
        town.round()
        told = town.told()
        judge = Judge(town)
        around = town.surroundings()
        for (job_id, index), reasons in told.items():
            job = town.state.jobs[job_id]
            codes = [reason.code for reason in reasons]
            seen.update(codes)
            assert ("next" in codes) == (codes == ["next"])
            assert codes == ["next"] or judge.all_of(job, index) <= set(codes), (job_id, index)
            for reason in reasons:
                assert judge.holds(reason, job, index), (job_id, index, reason)
        for job in town.state.jobs.values():
            first = Counter(why[0].code for (name, _), why in told.items() if name == job.job_id)
            assert around.codes(job) == first, job.job_id
            assert around.key(job) in (first or {"": 0}), job.job_id
        following = {name for name, why in told.items() if why[0].code == "next"}
        assert town.placed(set(told)) == following
    return seen


@given(st.integers(0, 1 << 32))
@settings(max_examples=60)
def test_a_task_is_next_exactly_where_the_next_round_gives_it_out(seed: int) -> None:
    judged(seed)


@given(st.integers(0, 1 << 32))
@settings(max_examples=60)
def test_what_is_foreseen_of_a_job_is_what_is_said_of_it_when_it_is_there(seed: int) -> None:
    town = Town(seed)
    for _ in range(town.dice.randint(1, 4)):
        town.round()
        position = town.state.position
        request = town.a_request()
        told = town.foreseen(request)
        assert town.state.position == position
        job_id = town.submit(request)
        if job_id is None:
            assert isinstance(told, Refused)
            continue
        assert not isinstance(told, Refused)
        whole = town.surroundings().whole(town.state.jobs[job_id])
        after = [(reason.code, reason.tasks) for reason in explain_job(whole)]
        assert [(reason["code"], reason["tasks"]) for reason in told["reasons"]] == after
        assert told["starting"] == dict(after).get("next", 0)
        waiting = {(job.job_id, index) for job, index in town.waiting()}
        given_out = [name for name in town.placed(waiting) if name[0] == job_id]
        assert len(given_out) == told["starting"]


@pytest.mark.slow
def test_every_reason_that_such_towns_can_give_was_judged() -> None:
    """The dice reach what they are meant to reach."""
    seen: Counter[str] = Counter()
    for seed in range(400):
        seen.update(judged(seed))
    never = {
        "held", "delivering", "finished", "open", "workers_unknown", "server_leaving",
        "log_suspended", "rate_namespace", "limit_user", "disk_full", "disk_slow",
        # Nothing is owed in a town.
        "in_block", "effect_backing_off", "effect_behind", "effect_parked", "no_sink",
        "no_carrier",
        # And nobody there serves.
        "restarting", "service", "unready",
        # What hangs is told by whoever looks for that.
        "stalled",
    }  # fmt: skip
    assert set(CODES) - set(seen) <= never

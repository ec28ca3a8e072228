"""A cancel in every state a task can be in, with a crash at every point of it.

Whatever was lost or kept, and whatever comes late: a task ends once, and nobody holds anything for
it.
"""

from collections import Counter
from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import pytest

from holdfast import current
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import Index, WorkerId
from holdfast.core.job import is_finished, state_of
from holdfast.core.record import decode_record
from holdfast.core.task import TaskState
from holdfast.testing.rehearsal import Rehearsal
from holdfast.testing.stages import JOB, STAGES, TERM_MS, Stage, stage_of
from holdfast.testing.world import World

W, FIRST = WorkerId("w"), Index(0)
ENDED = (
    TaskState.SUCCEEDED, TaskState.QUARANTINED, TaskState.KILLED, TaskState.UNSCHEDULABLE,
)  # fmt: skip
ENDS = (
    e.TasksCompleted, e.TaskCommitted, e.TasksKilled, e.TasksQuarantined, e.TasksUnschedulable,
)  # fmt: skip

CANCELS: dict[str, Callable[[], c.Command]] = {
    "the task": lambda: c.KillTasks(job_id=JOB, indices=(FIRST,), reason="enough"),
    "the job": lambda: c.KillJob(job_id=JOB, reason="enough"),
}
CRASHES = ("none", "before it is on the disk", "before it is answered")
LATE: dict[str, Callable[[Stage], object]] = {
    "commit": lambda s: s.world.commit(JOB, 0, s.lease_id),
    "fail": lambda s: s.world.fail(JOB, 0, s.lease_id),
    "release": lambda s: s.world.release(JOB, 0, s.lease_id),
    "expiry": lambda s: (s.world.sleep(TERM_MS), s.world.tick()),
    "worker lost": lambda s: s.world.do(c.LoseWorker(worker=W, incarnation=1, error="")),
    "the cancel again": lambda s: s.world.do(CANCELS["the job"]()),
}


def ends_in(world: World, first: int) -> int:
    """How often task j/0 came to an end in the records from this one on."""
    events = [event for data in world.log[first:] for event in decode_record(data).events]
    return sum(isinstance(event, ENDS) and event.job_id == JOB for event in events)


def cancel_and_judge(name: str, what: str, where: str, order: tuple[str, ...]) -> None:
    stage = stage_of(name)
    world, before = stage.world, len(stage.world.log)
    was_ended = stage.state in ENDED
    world.do(CANCELS[what]())
    if where != "none":
        is_lost = where == "before it is on the disk"
        world.crash(lose=len(world.log) - before if is_lost else 0)
    # Whoever was not answered asks again.
    world.do(CANCELS[what]())
    world.settle()
    for late in order:
        LATE[late](stage)
    world.settle()
    ends = ends_in(world, before)
    now = state_of(world.state.jobs[JOB], FIRST)
    if was_ended:
        assert (ends, now) == (0, stage.state)
    elif stage.state is TaskState.COMMITTED:
        assert now in (TaskState.COMMITTED, TaskState.SUCCEEDED)
    elif what == "the job" or "gang" not in name:
        assert (ends, now) == (1, TaskState.KILLED)
    if now in ENDED:
        held = [task for holder in world.state.holders.values() for task in holder.leases.values()]
        assert not [task for task in held if (task.job_id, task.index) == (JOB, FIRST)]
    assert world.troubles() == ()


@pytest.mark.parametrize(("name", "what"), list(product(STAGES, CANCELS)))
def test_a_cancel_ends_a_task_once_wherever_it_is_and_wherever_the_crash(name, what) -> None:
    for where, late in product(CRASHES, LATE):
        cancel_and_judge(name, what, where, (late,))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "what"), list(product(STAGES, CANCELS)))
def test_a_cancel_ends_a_task_once_whatever_comes_late_in_any_order(name, what) -> None:
    for where, order in product(CRASHES, permutations(LATE, 3)):
        cancel_and_judge(name, what, where, order)


# With real agents, bodies, effects and children.


def pays(number: int) -> int:
    CLUSTER[-1].clock.sleep(1 + number)
    current().effect("ledger", body=number)
    CLUSTER[-1].clock.sleep(1)
    return number


CLUSTER: list[Rehearsal] = []


class Life:
    """A job of five tasks and a child of it, cancelled after one frame and struck at another."""

    def __init__(self, cancel_at: int, crash_at: int, *, keeps: bool) -> None:
        self.frames = 0
        self.cluster = Rehearsal(workers=2)
        self.ledger = self.cluster.sink("ledger")
        CLUSTER.append(self.cluster)
        world = self.cluster._world
        self.job = self.cluster.map(pays, range(5))
        self.child = self.cluster.submit(pays, 9, parent=self.job.id)

        def counted() -> bool:
            has_written = world.service.turn() if not world.is_down else False
            if not has_written:
                return False
            self.frames += 1
            if self.frames == crash_at:
                world.crash(0, keeps_frame=keeps)
            else:
                world.service.synced()
            if self.frames == cancel_at:
                world.post(self._cancel)
            return True

        vars(world)["_write"] = counted
        self._world: Any = world

    def _cancel(self) -> None:
        self._world.service.do(c.KillJob(job_id=self.job.id, reason="enough"))
        if self._world.service.turn():
            self._world.service.synced()

    def run(self) -> None:
        try:
            self.cluster.run_until_idle()
            self.judge()
        finally:
            CLUSTER.remove(self.cluster)
            self.cluster.abort()

    def judge(self) -> None:
        service = self._world.service
        service.check()
        assert service.troubles == []
        state = service.coordinator.state
        assert all(is_finished(job) for job in state.jobs.values())
        assert not any(holder.leases for holder in state.holders.values())
        assert not any(worker.is_busy() for worker in self._world.crew)
        ends: Counter[tuple[str, int]] = Counter()
        committed = 0
        for record in service.records():
            for event in record.events:
                if isinstance(event, e.TaskCommitted):
                    committed += 1
                    ends[event.job_id, event.commit.index] += 1
                elif isinstance(event, e.TasksKilled):
                    indices = [end.index for end in event.ends]
                    for span in event.spans:
                        indices += range(span.first, span.last + 1)
                    ends.update((event.job_id, index) for index in indices)
        assert set(ends.values()) == {1}, ends
        assert len(ends) == 6, ends
        assert len(self.ledger.bodies) == committed, "an effect for each commit, and no other"


def frames_of_a_life() -> int:
    life = Life(0, 0, keeps=True)
    life.run()
    return life.frames


def test_a_cancel_at_any_frame_with_a_crash_at_the_same_ends_everything_once() -> None:
    for at in range(1, frames_of_a_life() + 1, 2):
        Life(at, at, keeps=bool(at % 4)).run()


@pytest.mark.slow
@pytest.mark.parametrize("keeps", [True, False])
def test_a_cancel_at_every_frame_with_a_crash_at_every_frame_ends_everything_once(keeps) -> None:
    frames = frames_of_a_life()
    assert frames > 10
    for cancel_at, crash_at in product(range(1, frames + 1), range(1, frames + 3)):
        Life(cancel_at, crash_at, keeps=keeps).run()

"""Budgets are exact: a budget of n is n charges, and the one after it is the last."""

from random import Random

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.apply import apply
from holdfast.core.attempt import STRAYS_FREE, EndReason
from holdfast.core.decide import decide
from holdfast.core.decision import Accepted
from holdfast.core.ids import Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.job import Job
from holdfast.core.record import Record
from holdfast.core.reports import Failed, Released, Started
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.core.state import State
from holdfast.core.task import TaskState
from holdfast.testing.stages import JOB
from holdfast.testing.world import World

W, SHARDS, SCHEDULES = WorkerId("w"), 40, 250
NO_WAIT = RetryPolicy(kind="none")


class Schedule:
    """One task and a bare core, since ten thousand of them are to be played."""

    def __init__(self, retries: int, max_losses: int) -> None:
        self.state, self.now, self.ends = State(), Instant(1_000), list[e.End]()
        spec = JobSpec(
            name="n", kind="k", target="t", retries=retries, max_losses=max_losses, retry=NO_WAIT
        )
        self.do(c.SubmitJob(job_id=JOB, spec=spec, count=1))

    @property
    def job(self) -> Job:
        return self.state.jobs[JobId(JOB)]

    def do(self, command: c.Command) -> None:
        decision = decide(self.state, command, self.now)
        assert isinstance(decision, Accepted)
        assert decision.events
        record = Record(self.now, "", "", "", "", decision.events)
        apply(self.state, record, Position(self.state.position + 1))
        for event in decision.events:
            if isinstance(event, e.AttemptsReturned | e.TasksQuarantined):
                self.ends.extend(event.ends)

    def play(self, end: str, *, started: bool) -> None:
        """One more attempt, ended like this."""
        # Past any wait after a loss.
        self.now = Instant(self.now + 60_000)
        grant = c.GrantLeases(
            job_id=JOB, worker=W, incarnation=1, slot=0, indices=(Index(0),), term_ms=100
        )
        self.do(grant)
        lease_id = LeaseId(self.state.next_lease - 1)
        name = (JobId(JOB), Index(0), lease_id)
        who = {"worker": W, "incarnation": 1}
        if started:
            self.do(c.StartAttempts(**who, started=(Started(*name, 0),)))
        if end in ("failed", "timed_out"):
            failed = Failed(*name, 0, end, "boom", "", 1)
            self.do(c.FailAttempt(**who, failed=failed, roll=0.0))
        elif end == "lease_expired":
            self.now = Instant(self.now + 100)
            self.do(c.Tick(wall=self.now))
        elif end == "worker_lost":
            self.do(c.LoseWorker(**who, error="gone"))
        else:
            released = Released(*name, started)
            self.do(c.ReleaseAttempts(**who, released=(released,), reason=end))


ENDS = ("failed", "timed_out", "lease_expired", "worker_lost", "released", "preempted")


@pytest.mark.parametrize("shard", range(SHARDS))
def test_charged_attempts_are_one_more_than_the_budget_in_any_schedule(
    shard: int, dice: Random
) -> None:
    for _ in range(SCHEDULES):
        retries, max_losses = dice.randrange(3), dice.randrange(3)
        schedule = Schedule(retries, max_losses)
        while schedule.job.states[0] != TaskState.QUARANTINED:
            schedule.play(dice.choice(ENDS), started=dice.random() < 0.9)
        charged = [end.charged for end in schedule.ends]
        spent, budget = charged[-1], {"failures": retries, "losses": max_losses}
        other = "losses" if spent == "failures" else "failures"
        assert charged.count(spent) == 1 + budget[spent]
        assert charged.count(other) <= budget[other]
        assert schedule.job.unfinished == 0
        assert schedule.job.quarantined == 1


@pytest.mark.parametrize("budget", range(5))
@pytest.mark.parametrize("reason", ["failed", "timed_out"])
def test_a_task_of_n_retries_fails_n_plus_one_times(reason: str, budget: int) -> None:
    schedule = Schedule(budget, 0)
    for _ in range(budget + 1):
        assert schedule.job.states[0] != TaskState.QUARANTINED
        schedule.play(reason, started=True)
    assert schedule.job.states[0] == TaskState.QUARANTINED
    assert [end.failures for end in schedule.ends] == list(range(1, budget + 2))


@pytest.mark.parametrize("budget", range(5))
@pytest.mark.parametrize("reason", ["lease_expired", "worker_lost"])
def test_a_task_of_n_losses_is_lost_n_plus_one_times(reason: str, budget: int) -> None:
    schedule = Schedule(0, budget)
    for _ in range(budget + 1):
        assert schedule.job.states[0] != TaskState.QUARANTINED
        schedule.play(reason, started=True)
    assert schedule.job.states[0] == TaskState.QUARANTINED
    assert [end.losses for end in schedule.ends] == list(range(1, budget + 2))


@pytest.mark.parametrize("reason", ["released", "preempted"])
def test_what_is_nobodys_fault_is_free_for_ever(reason: str) -> None:
    schedule = Schedule(0, 0)
    for _ in range(50):
        schedule.play(reason, started=True)
    assert {end.charged for end in schedule.ends} == {""}
    assert schedule.job.tasks[Index(0)].attempt == 50  # type: ignore[index]


def test_deaths_before_a_start_are_free_until_they_come_in_a_row() -> None:
    schedule = Schedule(0, 0)
    for _ in range(STRAYS_FREE):
        schedule.play("undelivered", started=False)
    assert {end.charged for end in schedule.ends} == {""}
    schedule.play("undelivered", started=False)
    assert schedule.ends[-1].charged == "losses"
    assert schedule.job.states[0] == TaskState.QUARANTINED


def test_any_other_end_breaks_the_row_of_deaths() -> None:
    schedule = Schedule(0, 0)
    for _ in range(4):
        for _ in range(STRAYS_FREE):
            schedule.play("worker_lost", started=False)
        schedule.play("released", started=False)
    assert {end.charged for end in schedule.ends} == {""}


def test_after_a_death_the_next_attempt_is_to_run_alone() -> None:
    for reason in ("worker_lost", "lease_expired", "undelivered"):
        schedule = Schedule(0, 9)
        schedule.play(reason, started=False)
        assert schedule.job.tasks[Index(0)].alone  # type: ignore[index]
        schedule.play("released", started=False)
        assert not schedule.job.tasks[Index(0)].alone  # type: ignore[index]


@pytest.mark.parametrize("reason", ["worker_lost", "lease_expired"])
def test_a_task_that_keeps_being_lost_waits_longer_each_time(reason: str) -> None:
    schedule, waits = Schedule(0, 9), []
    for _ in range(4):
        schedule.play(reason, started=True)
        not_before = schedule.ends[-1].not_before
        waits.append(not_before and not_before - schedule.now)
    assert waits == [0, 100, 200, 400]


def test_the_two_budgets_do_not_touch_each_other() -> None:
    schedule = Schedule(1, 1)
    schedule.play("failed", started=True)
    schedule.play("worker_lost", started=True)
    task = schedule.job.tasks[Index(0)]  # type: ignore[index]
    assert (task.failures, task.losses) == (1, 1)
    assert schedule.job.states[0] != TaskState.QUARANTINED
    schedule.play("failed", started=True)
    assert schedule.job.states[0] == TaskState.QUARANTINED


def test_a_retry_by_hand_gives_fresh_budgets_and_goes_on_counting_attempts() -> None:
    world = World()
    world.submit("j", spec=JobSpec(name="n", kind="k", target="t", retries=1, retry=NO_WAIT))
    for _ in range(2):
        (lease_id,) = world.grant("j")
        world.fail("j", 0, lease_id)
    world.did(c.RetryTasks(job_id=JobId("j")))
    task = world.task("j")
    assert (task.failures, task.losses, task.attempt) == (0, 0, 2)
    assert world.state.jobs[JobId("j")].generation == 2
    for _ in range(2):
        (lease_id,) = world.grant("j")
        world.fail("j", 0, lease_id)
    assert world.state.jobs[JobId("j")].quarantined == 1
    assert world.troubles() == ()


def test_every_reason_to_end_is_charged_as_it_should_be() -> None:
    charged = {"failed": "failures", "timed_out": "failures", "worker_lost": "losses"}
    charged |= {"lease_expired": "losses", "released": "", "preempted": ""}
    for reason, budget in charged.items():
        schedule = Schedule(5, 5)
        schedule.play(reason, started=True)
        assert schedule.ends[-1].charged == budget
        assert schedule.ends[-1].reason == EndReason(reason)

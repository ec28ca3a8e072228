"""Histories of services alone: replicas fall, are stopped and come back, the program dies anywhere,
and nothing is charged twice, forgotten, or begun that was stopped."""

from random import Random
from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from holdfast.core import commands as c
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Index, JobId
from holdfast.core.job import state_of
from holdfast.core.task import TaskState
from holdfast.testing.strategies import command_of, pass_time
from holdfast.testing.strategies_services import submit_service
from holdfast.testing.world import World

KINDS: Final = (
    c.GrantLeases, c.GrantLeases, c.StartAttempts, c.StartAttempts, c.FailAttempt, c.FailAttempt,
    c.CommitTasks, c.ReleaseAttempts, c.LoseWorker, c.AddTasks, c.StopReplicas, c.EndService,
    c.RetryTasks, c.KillTasks, c.SetAside, c.PurgeTasks, c.PreemptAttempts, c.ExtendLeases, c.Tick,
)  # fmt: skip
throws = st.randoms(use_true_random=False)


class Services(RuleBasedStateMachine):
    """`stopped` are replicas that somebody has ended for good."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.stopped: set[tuple[JobId, Index]] = set()

    @rule(dice=throws)
    def a_service(self, dice: Random) -> None:
        self.world.do(submit_service(self.world, dice))

    @rule(dice=throws)
    def life_goes_on(self, dice: Random) -> None:
        for _ in range(6):
            self.world.do(command_of(dice.choice(KINDS), self.world, dice))
        pass_time(self.world, dice)

    @rule(snapshot=st.booleans())
    def the_program_dies(self, snapshot: bool) -> None:
        before = self.world.fingerprint()
        self.world.crash(snapshot=snapshot)
        assert self.world.fingerprint() == before
        self.world.open(served=True)

    @rule(lose=st.integers(0, 3))
    def the_power_goes(self, lose: int) -> None:
        lose = min(lose, len(self.world.log) - 1)
        self.world.crash(lose=lose)
        self.stopped = set()

    @invariant()
    def what_must_hold_holds_and_replay_agrees(self) -> None:
        assert self.world.troubles() == ()
        assert fingerprint(self.world.replayed()) == self.world.fingerprint()
        assert fingerprint(thaw(freeze(self.world.state))) == self.world.fingerprint()

    @invariant()
    def only_who_was_stopped_is_gone_and_stays_so(self) -> None:
        gone: set[tuple[JobId, Index]] = set()
        for job in self.world.state.jobs.values():
            for index in map(Index, range(job.count)):
                current = state_of(job, index)
                assert current is not TaskState.SUCCEEDED, "a service has no result"
                if current is TaskState.KILLED:
                    gone.add((job.job_id, index))
        assert {who for who in self.stopped if who[0] in self.world.state.jobs} <= gone
        self.stopped = gone


def test_services_keep_what_must_hold_whenever_the_program_dies() -> None:
    run_state_machine_as_test(Services, settings=settings(max_examples=4, stateful_step_count=10))


@pytest.mark.slow
def test_services_keep_what_must_hold_for_long() -> None:
    run_state_machine_as_test(
        Services, settings=settings(max_examples=150, stateful_step_count=50)
    )

"""Any history of any commands: replay, snapshots, crashes and invariants agree at every step."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from holdfast.core.apply import replay
from holdfast.core.commands import COMMAND_TYPES, Command
from holdfast.core.decision import Refused
from holdfast.core.drawing import machines
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Instant
from holdfast.core.invariants import check
from holdfast.core.job import job_state
from holdfast.core.ready import take
from holdfast.core.state import State
from holdfast.testing.strategies import any_command, command_of, pass_time
from holdfast.testing.world import World, in_line

throws = st.randoms(use_true_random=False)


def indexes(state: State, now: Instant) -> dict[str, object]:
    """What the indexes answer, in a form that does not depend on how they came about."""
    state.ready.wake(state.jobs, now)
    line = in_line(state, now)
    ready = {job.job_id: set(take(job, now, job.count)) for job in line}
    holders = state.holders.values()
    state.debts.wake(now)
    places = state.debts.places.values()
    return {
        "deliverable": {name for place in places for name in place.ready},
        "blocks": {author: set(names) for author, names in state.debts.blocks.items()},
        "stored": set(state.stored_results()),
        "ready": ready,
        "held": {(h.worker, h.incarnation): set(h.leases) for h in holders if h.leases},
        "load": {(h.worker, h.incarnation): h.load for h in holders if h.leases},
        "open": set(state.open_jobs),
        "finished": sorted(state.finished),
    }


class Histories(RuleBasedStateMachine):
    """Commands of every kind from workers here and elsewhere, time, ticks, crashes, new openings.

    A crash drops everything but the written bytes, or all but a snapshot; a deeper one loses
    records that were never synced.
    """

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @rule(kind=st.sampled_from(COMMAND_TYPES), dice=throws)
    def a_command(self, kind: type[Command], dice: Random) -> None:
        before = self.world.fingerprint()
        decision = self.world.do(command_of(kind, self.world, dice))
        if isinstance(decision, Refused) or not decision.events:
            assert self.world.fingerprint() == before

    @rule(dice=throws)
    def work_goes_on(self, dice: Random) -> None:
        for _ in range(4):
            self.world.do(any_command(self.world, dice))

    @rule(dice=throws)
    def time_passes(self, dice: Random) -> None:
        pass_time(self.world, dice)

    @rule()
    def a_tick(self) -> None:
        self.world.tick()

    @rule(snapshot=st.booleans())
    def a_crash_and_a_new_opening(self, snapshot: bool) -> None:
        before = self.world.fingerprint()
        self.world.crash(snapshot=snapshot)
        assert self.world.fingerprint() == before
        self.world.open()

    @rule(lose=st.integers(0, 3))
    def a_crash_that_loses_what_was_not_synced(self, lose: int) -> None:
        lose = min(lose, len(self.world.log) - 1)
        past = fingerprint(self.world.replayed(len(self.world.log) - lose))
        self.world.crash(lose=lose)
        assert self.world.fingerprint() == past

    @invariant()
    def replay_reaches_the_same_state(self) -> None:
        assert fingerprint(self.world.replayed()) == self.world.fingerprint()

    @invariant()
    def a_snapshot_holds_the_same_state_and_rebuilds_the_same_indexes(self) -> None:
        thawed = thaw(freeze(self.world.state))
        assert fingerprint(thawed) == self.world.fingerprint()
        assert check(thawed) == ()
        now = self.world.now
        assert indexes(thawed, now) == indexes(self.world.state, now)

    @invariant()
    def nothing_that_must_hold_is_broken(self) -> None:
        assert self.world.troubles() == ()


def test_every_history_keeps_the_invariants() -> None:
    run_state_machine_as_test(Histories, settings=settings(max_examples=5, stateful_step_count=12))


@pytest.mark.slow
def test_every_long_history_keeps_the_invariants() -> None:
    run_state_machine_as_test(
        Histories, settings=settings(max_examples=400, stateful_step_count=60)
    )


def lived(dice: Random, steps: int) -> World:
    world = World()
    for _ in range(steps):
        if dice.random() < 0.3:
            pass_time(world, dice)
        world.do(any_command(world, dice))
    return world


@given(dice=throws, data=st.data())
@settings(max_examples=8)
def test_after_a_crash_anywhere_the_future_is_the_one_a_survivor_would_have(
    dice: Random, data: st.DataObject
) -> None:
    world = lived(dice, 25)
    place = data.draw(st.integers(1, len(world.log)), label="crash after record")
    survivor, snapshot = world.replayed(place), thaw(freeze(world.replayed(place)))
    for state in (survivor, snapshot):
        assert check(state) == ()
    rest = world.records()[place:]
    assert fingerprint(replay(survivor, rest)) == world.fingerprint()
    assert fingerprint(replay(snapshot, rest)) == world.fingerprint()
    assert check(snapshot) == ()


@given(dice=throws)
@settings(max_examples=8)
def test_replaying_twice_is_replaying_once(dice: Random) -> None:
    world = lived(dice, 30)
    first, second = world.replayed(), world.replayed()
    assert freeze(first) == freeze(second) == freeze(world.state)


@pytest.mark.parametrize("shard", range(20))
def test_001_91_fuzz_a_seeded_history_keeps_the_invariants_and_survives_its_crash(
    shard: int, dice: Random
) -> None:
    for _ in range(6):
        world = World()
        for _ in range(60):
            if dice.random() < 0.3:
                pass_time(world, dice)
            world.do(any_command(world, dice))
            assert world.troubles() == ()
        before = world.fingerprint()
        assert fingerprint(world.replayed()) == before
        thawed = thaw(freeze(world.state))
        assert check(thawed) == ()
        assert indexes(thawed, world.now) == indexes(world.state, world.now)


@pytest.mark.parametrize(
    "shard",
    [pytest.param(n, marks=pytest.mark.slow if n < 25 else pytest.mark.soak) for n in range(50)],
)
def test_many_seeded_histories_keep_the_invariants_at_every_step(shard: int, dice: Random) -> None:
    for _ in range(40):
        world = lived(dice, 0)
        for _ in range(100):
            if dice.random() < 0.3:
                pass_time(world, dice)
            world.do(any_command(world, dice))
            assert world.troubles() == ()
            thawed = thaw(freeze(world.state))
            assert fingerprint(thawed) == world.fingerprint()
            assert check(thawed) == ()
        assert fingerprint(world.replayed()) == world.fingerprint()


def test_a_job_moves_only_as_it_is_drawn(dice: Random) -> None:
    drawn = {(arrow.source, arrow.target) for arrow in machines()[-1].arrows}
    seen: set[tuple[str, str]] = set()
    for _ in range(12):
        world, last = World(), {}
        for _ in range(60):
            if dice.random() < 0.3:
                pass_time(world, dice)
            world.do(any_command(world, dice))
            now = {job_id: str(job_state(job)) for job_id, job in world.state.jobs.items()}
            seen |= {(last[i], state) for i, state in now.items() if i in last and last[i] != state}
            last = now
    assert seen <= drawn
    assert seen

"""Moves are counted record by record, and times are told from what events name."""

from collections import Counter
from random import Random

from msgspec.structs import replace

from holdfast.coordinator.durations import Durations
from holdfast.coordinator.tally import BY_LENGTH, Tally
from holdfast.core.apply import apply
from holdfast.core.commands import CommitTasks, RetryTasks
from holdfast.core.ids import Index, JobId, Position, WorkerId
from holdfast.core.moves import TELLERS, moves_of
from holdfast.core.record import decode_record
from holdfast.core.reports import Done
from holdfast.core.state import State
from holdfast.testing.histories import a_history
from holdfast.testing.world import MAIL, PLAIN, World


def test_counting_by_length_gives_what_the_moves_tell():
    tally, told = Tally(), Counter()
    for data in a_history(400, Random(3)).log:
        record = decode_record(data)
        tally.note(record)
        for move in moves_of(record):
            told[move.source, move.target] += move.count
    assert +tally.moves == +told
    assert set(BY_LENGTH) <= set(TELLERS)
    assert sum(told.values()) > 200


def test_an_attempt_that_ended_is_counted_by_its_reason():
    world = World()
    world.submit("j", spec=replace(PLAIN, retries=0))
    world.fail("j", 0, *world.grant("j"))
    tally = Tally()
    for data in world.log:
        tally.note(decode_record(data))
    assert dict(tally.ends) == {("failed", "QUARANTINED"): 1}


def measured(world: World) -> dict[str, tuple[int, float]]:
    """How often each state was left, and for how many seconds it was held in all."""
    state = State()
    durations = Durations(state)
    for position, data in enumerate(world.log, 1):
        record = decode_record(data)
        apply(state, record, Position(position))
        durations.note(Position(position), record)
    return {name: (h.count, h.total) for name, h in durations.states.items() if h.count}


def test_001_99_the_time_in_each_state_is_measured():
    world = World()
    world.submit("j")
    world.sleep(5_000)
    (lease,) = world.grant("j")
    world.sleep(2_000)
    world.start("j", 0, lease)
    world.sleep(30_000)
    world.commit("j", 0, lease, owed=(MAIL,))
    world.sleep(7_000)
    world.confirm("j", 0, 0)
    assert measured(world) == {
        "WAITING": (1, 5.0),
        "LEASED": (1, 2.0),
        "RUNNING": (1, 30.0),
        "COMMITTED": (1, 7.0),
    }


def test_a_task_that_was_sent_back_waits_from_then_on():
    world = World()
    world.submit("j", spec=replace(PLAIN, retries=0))
    (lease,) = world.grant("j")
    world.start("j", 0, lease)
    world.fail("j", 0, lease)
    world.sleep(60_000)
    world.do(RetryTasks(job_id=JobId("j")))
    world.sleep(3_000)
    world.commit("j", 0, *world.grant("j"))
    told = measured(world)
    assert told["QUARANTINED"] == (1, 60.0)
    assert told["WAITING"] == (2, 3.0)


def test_of_a_record_with_very_many_events_a_share_stands_for_all():
    world = World()
    reports = []
    for number in range(140):
        world.submit(f"j{number}")
        (lease,) = world.grant(f"j{number}")
        reports.append(Done(JobId(f"j{number}"), Index(0), lease, 0, b"", (), None))
    world.sleep(2_000)
    world.do(CommitTasks(worker=WorkerId("w"), incarnation=1, done=tuple(reports)))
    told = measured(world)
    assert told["LEASED"] == (140, 280.0)
    assert told["RUNNING"][0] == 140

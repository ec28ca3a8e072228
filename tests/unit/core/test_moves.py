"""The moves that a record tells are those that its tasks make."""

from random import Random

import pytest
from msgspec.structs import replace

from holdfast.core import events as e
from holdfast.core.apply import apply
from holdfast.core.commands import RetryTasks
from holdfast.core.ids import Index, Instant, JobId, Position
from holdfast.core.job import state_of
from holdfast.core.moves import NEW, TELLERS, UNTOLD, Move, moves_of
from holdfast.core.record import Record, decode_record
from holdfast.core.state import State
from holdfast.core.task import TRANSITIONS
from holdfast.testing.histories import a_history
from holdfast.testing.world import PLAIN, World

BIRTHS = {e.JobSubmitted, e.TasksAdded}

Places = dict[tuple[str, int], str]


def places_of(state: State) -> Places:
    return {
        (job.job_id, index): state_of(job, Index(index)).name
        for job in state.jobs.values()
        for index in range(job.count)
    }


def follow(places: Places, moves: list[Move]) -> None:
    """Each move begins where the one before it ended."""
    for move in moves:
        for index in range(move.first, move.last + 1):
            assert places.get((move.job_id, index), NEW) == move.source, move
            places[move.job_id, index] = move.target


def judge(world: World) -> int:
    """Replay what was written and compare every move with the tasks; how many there were."""
    state, count = State(), 0
    for position, data in enumerate(world.log, 1):
        record = decode_record(data)
        places = places_of(state)
        moves = moves_of(record)
        follow(places, moves)
        apply(state, record, Position(position))
        now = places_of(state)
        assert now == {task: place for task, place in places.items() if task in now}
        count += len(moves)
    return count


def test_001_28_the_moves_a_record_tells_are_those_of_the_tasks() -> None:
    assert judge(a_history(150, Random(5))) > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_001_28_the_moves_are_told_in_long_histories_too(seed: int) -> None:
    assert judge(a_history(2_000, Random(seed))) > 1_000


def test_every_event_that_the_table_of_tasks_takes_tells_its_moves() -> None:
    taken = {event for row in TRANSITIONS.values() for event in row}
    assert set(TELLERS) == taken | BIRTHS


def test_a_retry_says_from_where_each_task_came() -> None:
    world = World()
    spec = replace(PLAIN, retries=0, schedule_timeout_ms=50)
    world.submit("j", 4, spec=spec)
    for index in (0, 2):
        world.fail("j", index, *world.grant("j", index))
    world.sleep(60)
    world.tick()
    world.do(RetryTasks(job_id=JobId("j")), reason="again")
    moves = moves_of(decode_record(world.log[-1]))
    assert [(move.tasks, move.source, move.target) for move in moves] == [
        ("j/0", "QUARANTINED", "WAITING"),
        ("j/1", "UNSCHEDULABLE", "WAITING"),
        ("j/2", "QUARANTINED", "WAITING"),
        ("j/3", "UNSCHEDULABLE", "WAITING"),
    ]
    assert {move.reason for move in moves} == {"again"}
    assert moves[0].metadata == {"generation": 2}


def test_a_retry_that_an_older_release_wrote_does_not_guess() -> None:
    spans = (e.Span(Index(0), Index(4)),)
    event = e.TasksRetried(job_id=JobId("1"), generation=2, spans=spans)
    (move,) = moves_of(Record(Instant(1), "RetryTasks", "ann", "", "", (event,)))
    assert (move.source, move.target, move.tasks) == (UNTOLD, "WAITING", "1/0-4")


def test_a_million_births_are_one_move() -> None:
    world = World()
    world.submit("1", 1_000_000)
    (move,) = moves_of(decode_record(world.log[-1]))
    assert (move.tasks, move.count, move.action) == (
        "1/0-999999",
        1_000_000,
        "transition_NEW_to_WAITING",
    )

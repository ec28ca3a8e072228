"""Dependencies, children, gangs and preemption survive a crash of the coordinator at every record:
the story goes on from there and comes to the same end."""

import pytest

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.recovery import opening
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.apply import replay
from holdfast.core.decide import decide
from holdfast.core.decision import Accepted
from holdfast.core.freeze import freeze, thaw
from holdfast.core.ids import Position
from holdfast.core.invariants import Watch, check
from holdfast.core.record import Record, decode_record
from holdfast.core.state import State
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.tied_story import ENDS, tell

PARTS = 32


def opened(state: State) -> Coordinator:
    coordinator = Coordinator(state, ManualClock(), SeededDice(1))
    coordinator.execute(opening("log", state.epoch + 1, 0, 0), actor="coordinator")
    return coordinator


def written(coordinator: Coordinator) -> list[Record]:
    """What this coordinator has recorded; all of it, since nothing was taken before."""
    batch = coordinator.take_batch()
    return [] if batch is None else [decode_record(data) for data in batch.records]


@pytest.fixture(scope="module")
def whole() -> list[Record]:
    """The records of a story that nothing disturbed."""
    coordinator = opened(State())
    assert tell(coordinator) == ENDS
    return written(coordinator)


def placed(records: list[Record]) -> list[tuple[Position, Record]]:
    return [(Position(place), record) for place, record in enumerate(records, start=1)]


def test_the_story_shows_everything_it_is_there_to_show(whole: list[Record]) -> None:
    events = [event for record in whole for event in record.events]
    causes = {event.cause for event in events if isinstance(event, e.JobCancelled)}
    assert causes == {"dependency_failed", "parent_ended", "cancelled", "gang_failed"}
    reasons = {end.reason for event in events for end in getattr(event, "ends", ())}
    assert {"failed", "killed", "preempted", "sibling_failed"} <= reasons
    assert sum(isinstance(event, e.JobUnblocked) for event in events) >= 5
    assert sum(record.command == "SettleTies" for record in whole) >= 8


def would_change(state: State) -> bool:
    """Whether somebody is tied to something that has ended, so that more follows from it."""
    decision = decide(state, c.SettleTies(jobs=tuple(state.unsettled)), state.time)
    return isinstance(decision, Accepted) and bool(decision.events)


def test_what_follows_from_an_end_is_the_very_next_record(whole: list[Record]) -> None:
    state, follows = State(), False
    for position, record in placed(whole):
        assert (record.command == "SettleTies") == follows
        replay(state, [(position, record)])
        follows = would_change(state)
    assert not follows


@pytest.mark.parametrize("part", range(PARTS))
def test_a_crash_after_any_record_changes_nothing_in_the_end(
    whole: list[Record], part: int
) -> None:
    for place in range(1 + part, len(whole) + 1, PARTS):
        for by_snapshot in (False, True):
            watch, before = Watch(), placed(whole[:place])
            state = replay(State(), before)
            if by_snapshot:
                state = thaw(freeze(state))
            assert check(state) == ()
            coordinator = opened(state)
            assert coordinator.state.unsettled == {}
            assert tell(coordinator) == ENDS, f"cut after record {place}"
            assert check(coordinator.state) == ()
            for position, record in placed(whole[:place] + written(coordinator)):
                assert watch.feed(position, record) == ()

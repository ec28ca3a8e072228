"""Releases before and after this one: what they wrote, and what is made of it."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.apply import FOLDS
from holdfast.core.errors import BrokenInvariant
from holdfast.core.event import Event
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Index, Instant, JobId, Position
from holdfast.core.invariants import check
from holdfast.core.owed import Entry
from holdfast.core.record import Record, UnreadableRecord, decode_record, encode_record
from holdfast.core.state import State
from holdfast.core.task import TRANSITIONS, TaskState
from holdfast.core.upcast import OUTBOX, STEPS, opened_by, upcast
from holdfast.testing.world import World

GOLDEN = Path(__file__).parents[2] / "golden" / "events.json"
COMMIT = [3, 7, 2, 9, 11, 5, 1, 0, b"result"]


def raw(*events: list[Any]) -> bytes:
    return msgspec.msgpack.encode([1, "Command", "actor", "", "", list(events)])


FORMER: dict[tuple[str, int], tuple[list[Any], tuple[e.AnyEvent, ...]]] = {
    ("TasksKilled", 4): (
        ["TasksKilled", "j", "cancelled", [[0, 9]], []],
        (
            e.TasksKilled(
                job_id=JobId("j"), cause="cancelled", spans=(e.Span(Index(0), Index(9)),),
                ends=(), stopped=(),
            ),
        ),
    ),
    ("EffectDelivered", 3): (
        ["EffectDelivered", "j", 3, 1],
        (e.EffectsDelivered(job_id=JobId("j"), settled=(e.Settled(Index(3), 1),)),),
    ),
    ("TaskDone", 3): (
        ["TaskDone", "j", 3, 0],
        (
            e.EffectsDelivered(job_id=JobId("j"), settled=(e.Settled(Index(3), 0),)),
            e.TasksDone(job_id=JobId("j"), indices=(Index(3),)),
        ),
    ),
    ("TaskCommitted", 5): (
        ["TaskCommitted", "j", "w", 1, COMMIT, [b"dear ann"]],
        (
            e.TaskCommitted(
                job_id=JobId("j"), worker="w", incarnation=1,  # type: ignore[arg-type]
                commit=msgspec.convert(COMMIT, e.Commit),
                owed=(Entry("effect", OUTBOX, "", b"dear ann"),),
            ),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", sorted(STEPS))
def test_what_a_former_release_wrote_is_told_as_this_one_tells_it(shape: tuple[str, int]) -> None:
    written, told = FORMER[shape]
    assert decode_record(raw(written)).events == told
    assert decode_record(raw(["JobDue", "j"], written)).events[1:] == told


def test_nothing_that_this_release_writes_needs_a_step() -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))["events"]
    for name, written in golden.items():
        assert upcast(bytes.fromhex(written["bytes"])) is None, name


@pytest.mark.parametrize("data", [b"", b"\xc1", raw(["JobDue"]), raw(["Unheard", 1]), raw([])])
def test_what_no_step_knows_stays_unreadable(data: bytes) -> None:
    assert upcast(data) is None
    with pytest.raises(UnreadableRecord):
        decode_record(data)


def test_an_event_that_says_more_than_is_known_is_not_read_as_if_it_said_less() -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))["events"]
    for name, written in golden.items():
        *envelope, (values,) = msgspec.msgpack.decode(bytes.fromhex(written["bytes"]))
        grown = msgspec.msgpack.encode([*envelope, [[*values, "later"]]])
        with pytest.raises(UnreadableRecord):
            decode_record(grown)
        assert name


def test_who_opened_the_log_is_read_whatever_else_it_says() -> None:
    grown = ["LogOpened", "id", 4, "9.9", "host", 1, 0, "more", "still more"]
    assert opened_by(raw(grown)) == "9.9"
    assert opened_by(raw(["JobDue", "j"])) == ""


# A release of tomorrow, with a state that does not exist yet: SUCCEEDED tasks may be ARCHIVED.


class TasksArchived(Event, frozen=True, kw_only=True):
    """Tasks that succeeded were put away."""

    job_id: JobId
    indices: tuple[Index, ...]


class LaterRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a release of tomorrow writes."""

    at: Instant
    command: str
    actor: str
    request_id: str
    reason: str
    events: tuple[e.AnyEvent | TasksArchived, ...]


ARCHIVED = 200
LATER_TABLE = {
    **TRANSITIONS,
    TaskState.SUCCEEDED: {**TRANSITIONS[TaskState.SUCCEEDED], TasksArchived: ARCHIVED},
}


def archived(state: State, event: TasksArchived, position: Position, at: Instant) -> None:
    job = state.jobs[event.job_id]
    for index in event.indices:
        assert TasksArchived in LATER_TABLE[TaskState(job.states[index])]
        job.states[index] = ARCHIVED


LATER_FOLDS: dict[type[Event], Any] = {**FOLDS, TasksArchived: archived}
later_decoder = msgspec.msgpack.Decoder(LaterRecord)


def replayed_later(log: list[bytes]) -> State:
    state = State()
    for position, data in enumerate(log, start=1):
        record = later_decoder.decode(data)
        for event in record.events:
            LATER_FOLDS[type(event)](state, event, Position(position), record.at)
        state.position, state.time = Position(position), record.at
    return state


def test_a_state_added_later_leaves_every_log_before_it_as_it_was() -> None:
    world = World()
    world.submit("j", items=(b"1", b"2"))
    first, second = world.grant("j", 0, 1)
    world.commit("j", 0, first)
    world.commit("j", 1, second)
    assert fingerprint(replayed_later(world.log)) == world.fingerprint()
    put_away = TasksArchived(job_id=JobId("j"), indices=(Index(1),))
    record = LaterRecord(world.state.time, "Archive", "a", "", "", (put_away,))
    later = replayed_later([*world.log, msgspec.msgpack.encode(record)])
    assert list(later.jobs[JobId("j")].states) == [TaskState.SUCCEEDED, ARCHIVED]
    # This release refuses what it does not know, in a record and in a snapshot alike.
    with pytest.raises(UnreadableRecord):
        decode_record(msgspec.msgpack.encode(record))
    with pytest.raises(BrokenInvariant, match="state 200"):
        thaw(freeze(later))
    assert "J1" in {violation.name for violation in check(later)}


def test_records_of_this_release_come_back_as_they_went() -> None:
    record = Record(Instant(1), "C", "a", "", "", (e.JobDue(job_id=JobId("j")),))
    assert decode_record(encode_record(record)) == record

"""A log that goes on from another one: what it takes along, what it leaves, and when it works."""

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.apply_lineage import log_forked
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.core.errors import BrokenInvariant
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Index, JobId, LeaseId, Position, WorkerId
from holdfast.core.lineage import FORK, LEASE_LEAP, Ancestor, Hole
from holdfast.core.owed import Entry
from holdfast.core.state import State
from holdfast.core.task import TaskState
from holdfast.testing.world import World

MAIL = Entry("effect", "mail", "ann", b"dear")


def fork_of(world: World, log_id: str = "fork", **told: object) -> c.ForkLog:
    state = world.state
    wanted: dict[str, object] = {
        "log_id": log_id, "head": b"head", "head_position": state.position, "kind": FORK,
        "epoch": state.epoch + 1, "next_lease": LeaseId(1), "next_job": 1, **told,
    }  # fmt: skip
    return c.ForkLog(**wanted)  # type: ignore[arg-type]


def test_whoever_holds_a_lease_holds_it_of_the_former_log_and_is_not_charged() -> None:
    world = World()
    world.submit("j", items=(b"1", b"2"))
    (lease, _) = world.grant("j", 0, 1, term_ms=9_000)
    world.start("j", 0, lease)
    forked, returned = world.did(fork_of(world))
    assert isinstance(forked, e.LogForked)
    assert isinstance(returned, e.AttemptsReturned)
    assert {(end.reason, end.charged) for end in returned.ends} == {("released", "")}
    assert world.task("j", 0).state is TaskState.WAITING
    assert not world.state.holders or not any(h.leases for h in world.state.holders.values())
    assert world.troubles() == ()


def test_a_forked_log_gives_nothing_out_before_it_is_resumed() -> None:
    world = World()
    world.submit("j", items=(b"1",))
    world.did(fork_of(world))
    grant = c.GrantLeases(
        job_id=JobId("j"), worker=WorkerId("w"), incarnation=1, slot=0, indices=(Index(0),),
        term_ms=0,
    )  # fmt: skip
    told = world.do(grant)
    assert isinstance(told, Refused)
    assert told.code is Reason.CONFLICT
    assert "holdfast log resume" in told.message
    assert world.did(c.ResumeLog()) == (e.LogResumed(suspended=FORK),)
    assert world.did(c.ResumeLog()) == ()
    assert world.grant("j", 0)
    assert world.troubles() == ()


def test_leases_and_jobs_go_on_above_all_that_were_seen() -> None:
    world = World()
    world.submit("7", items=(b"1",))
    world.did(fork_of(world, next_lease=LeaseId(LEASE_LEAP), next_job=40))
    world.did(c.ResumeLog())
    assert world.grant("7", 0) == (LEASE_LEAP,)
    assert world.state.next_job == 40


def test_what_was_committed_before_keeps_the_id_of_its_log() -> None:
    world = World()
    former = world.state.log_id
    world.submit("j", items=(b"1", b"2"))
    (lease,) = world.grant("j", 0)
    world.commit("j", 0, lease, owed=(MAIL,))
    committed = world.task("j", 0).committed
    world.did(fork_of(world, "second"))
    world.did(c.ResumeLog())
    (lease,) = world.grant("j", 1)
    world.commit("j", 1, lease, owed=(MAIL,))
    later = world.task("j", 1).committed
    world.did(fork_of(world, "third"))
    state = world.state
    assert [state.log_at(p) for p in (committed, later, Position(state.position))] == [
        former, "second", "third",
    ]  # fmt: skip
    assert [a.log_id for a in state.lineage] == [former, "second"]
    assert state.debts.find is not None
    assert len(state.debts) == 2


def test_a_block_of_the_former_log_is_parked_for_a_person() -> None:
    world = World()
    world.submit("j", items=(b"1",))
    (lease,) = world.grant("j", 0)
    world.commit("j", 0, lease, owed=(Entry("block", "", "", b""),))
    events = world.did(fork_of(world))
    assert [type(event) for event in events] == [e.LogForked, e.EffectsParked]
    assert world.troubles() == ()


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({"epoch": 1}, Reason.CONFLICT),
        ({"log_id": "log"}, Reason.CONFLICT),
        ({"log_id": ""}, Reason.CONFLICT),
        ({"kind": "theft"}, Reason.INVALID),
    ],
)
def test_a_fork_that_leaves_nothing_behind_is_refused(told: dict[str, object], code: str) -> None:
    world = World()
    before = fingerprint(world.state)
    decision = world.do(fork_of(world, **told))  # type: ignore[arg-type]
    assert isinstance(decision, Refused)
    assert decision.code == code
    assert fingerprint(world.state) == before


def test_a_log_without_history_has_nothing_to_fork() -> None:
    world = World(opened=False)
    assert isinstance(world.do(fork_of(world)), Refused)


def test_a_record_of_another_fork_is_impossible_and_changes_nothing() -> None:
    world = World()
    decision = world.do(fork_of(world))
    assert isinstance(decision, Accepted)
    state, before = world.state, fingerprint(world.state)
    (forked, *_) = decision.events
    assert isinstance(forked, e.LogForked)
    with pytest.raises(BrokenInvariant):
        log_forked(state, forked, Position(state.position + 1), state.time)
    assert fingerprint(state) == before


def test_lineage_and_suspension_come_back_from_a_snapshot() -> None:
    world = World()
    world.did(fork_of(world, hole=Hole("f", 1, 2, 3, "why")))
    came_back = thaw(freeze(world.state))
    assert came_back.lineage == (Ancestor("log", Position(1)),)
    assert came_back.suspended == FORK
    assert fingerprint(came_back) == fingerprint(world.state)


def test_a_log_that_was_never_forked_has_the_fingerprint_it_always_had() -> None:
    """What is new in a frozen state is left out while there is none of it."""
    assert len(msgspec.msgpack.decode(freeze(State()))) == 23

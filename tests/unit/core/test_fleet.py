"""Tokens, cordons, queues, endpoints and repeated requests: recorded, repeated, refused."""

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Reason, Refused, Repeated
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Index, Instant, JobId, LeaseId, WorkerId
from holdfast.core.spec import JobSpec
from holdfast.testing.stages import JOB, Stage, stage_of
from holdfast.testing.world import MAIL, World, in_line

W = WorkerId("w")


def token(name: str = "t1", **changes: object) -> c.IssueToken:
    made = c.IssueToken(
        token_id=name, name="ann", digest=name.encode(), scopes=("submit", "read")
    )
    return msgspec.structs.replace(made, **changes)


def code(decision: object) -> str:
    return decision.code if isinstance(decision, Refused) else "accepted"


def survives(world: World) -> None:
    """A restart by replay and one by snapshot both come back as the same state."""
    assert fingerprint(world.replayed()) == world.fingerprint()
    assert fingerprint(thaw(freeze(world.state))) == world.fingerprint()
    assert world.troubles() == ()


def test_a_token_is_known_by_its_digest_until_it_is_revoked() -> None:
    world = World()
    world.did(token())
    assert world.state.tokens["t1"].scopes == ("submit", "read")
    assert code(world.do(token())) == Reason.CONFLICT
    assert code(world.do(token("t2", digest=b"t1"))) == Reason.CONFLICT
    survives(world)
    world.did(c.RevokeToken(token_id="t1"))
    assert world.state.tokens == {}
    assert code(world.do(c.RevokeToken(token_id="t1"))) == Reason.NOT_FOUND


@pytest.mark.parametrize(
    "changes",
    [{"scopes": ()}, {"scopes": ("root",)}, {"token_id": ""}, {"expires_wall": -1}],
    ids=str,
)
def test_a_token_that_makes_no_sense_is_refused(changes: dict[str, object]) -> None:
    assert code(World().do(token(**changes))) == Reason.INVALID


def test_a_token_without_a_name_is_refused() -> None:
    assert code(World().do(msgspec.structs.replace(token(), name=""))) == Reason.INVALID


def test_a_token_ends_when_the_calendar_says_so_and_that_is_recorded() -> None:
    world = World()
    world.did(token(expires_wall=Instant(world.wall + 1_000)))
    world.did(token("forever"))
    world.sleep(999)
    assert world.tick() == ()
    world.sleep(1)
    assert world.tick() == (e.TokensExpired(token_ids=("t1",)),)
    assert list(world.state.tokens) == ["forever"]


def test_a_cordon_holds_for_the_name_and_a_repeat_adds_nothing() -> None:
    world = World()
    assert len(world.did(c.CordonWorker(worker=W, reason="slow disk"))) == 1
    assert world.did(c.CordonWorker(worker=W, reason="slow disk")) == ()
    assert world.state.cordoned == {W: "slow disk"}
    survives(world)
    assert len(world.did(c.UncordonWorker(worker=W))) == 1
    assert world.did(c.UncordonWorker(worker=W)) == ()
    assert code(world.do(c.CordonWorker(worker=WorkerId("")))) == Reason.INVALID


def test_a_paused_queue_offers_nothing_and_others_go_on() -> None:
    world = World()
    world.submit("a", 1, spec=JobSpec(name="n", kind="k", target="t", queue="slow"))
    world.submit("b", 1)
    world.did(c.PauseQueue(queue="slow"))
    assert world.did(c.PauseQueue(queue="slow")) == ()
    offered = [j.job_id for j in in_line(world.state, world.now, world.state.paused)]
    assert offered == ["b"]
    survives(world)
    world.did(c.ResumeQueue(queue="slow"))
    assert world.did(c.ResumeQueue(queue="slow")) == ()
    offered = [j.job_id for j in in_line(world.state, world.now, world.state.paused)]
    assert offered == ["a", "b"]
    assert code(world.do(c.PauseQueue(queue=""))) == Reason.INVALID


def endpoint(stage: Stage, name: str = "web", address: str = "host:1") -> c.RegisterEndpoint:
    return c.RegisterEndpoint(
        worker=W, incarnation=1, job_id=JOB, index=Index(0), lease_id=stage.lease_id, name=name,
        address=address,
    )  # fmt: skip


def test_an_endpoint_lives_under_its_lease_and_dies_with_it() -> None:
    stage = stage_of("running")
    world = stage.world
    world.did(endpoint(stage))
    assert world.did(endpoint(stage)) == ()
    world.did(endpoint(stage, address="host:2"))
    (held,) = world.state.endpoints["web"].values()
    assert [known.address for known in held.endpoints] == ["host:2"]
    survives(world)
    world.commit(JOB, 0, stage.lease_id)
    assert world.state.endpoints == {}
    survives(world)


@pytest.mark.parametrize("ending", ["commit owing", "fail", "release", "kill", "lose", "remove"])
def test_no_end_of_an_attempt_leaves_an_endpoint_behind(ending: str) -> None:
    stage = stage_of("running")
    world, lease = stage.world, stage.lease_id
    world.did(endpoint(stage))
    world.did(endpoint(stage, "api"))
    if ending == "commit owing":
        world.commit(JOB, 0, lease, owed=(MAIL,))
    elif ending == "fail":
        world.fail(JOB, 0, lease)
    elif ending == "release":
        world.release(JOB, 0, lease)
    elif ending == "kill":
        world.did(c.KillJob(job_id=JOB))
    elif ending == "lose":
        world.did(c.LoseWorker(worker=W, incarnation=1, error="gone"))
    else:
        for name in ("web", "api"):
            command = c.RemoveEndpoint(
                worker=W, incarnation=1, job_id=JOB, index=Index(0), lease_id=lease, name=name
            )
            assert len(world.did(command)) == 1
            assert world.did(command) == ()
    assert world.state.endpoints == {}
    survives(world)


@pytest.mark.parametrize(
    "changes",
    [
        {"worker": WorkerId("other")},
        {"incarnation": 2},
        {"lease_id": LeaseId(99)},
        {"lease_id": LeaseId(0)},
    ],
    ids=str,
)
def test_an_endpoint_under_a_lease_that_is_not_held_is_refused(changes: dict[str, object]) -> None:
    stage = stage_of("running")
    before = stage.world.fingerprint()
    decision = stage.world.do(msgspec.structs.replace(endpoint(stage), **changes))
    assert code(decision) == Reason.LEASE_LOST
    assert stage.world.fingerprint() == before


def test_an_endpoint_under_a_lease_past_its_time_is_refused() -> None:
    stage = stage_of("running past its time")
    assert code(stage.world.do(endpoint(stage))) == Reason.LEASE_LOST


def test_an_endpoint_without_a_name_an_address_or_a_job_is_refused() -> None:
    stage = stage_of("running")
    assert code(stage.world.do(endpoint(stage, ""))) == Reason.INVALID
    assert code(stage.world.do(endpoint(stage, address=""))) == Reason.INVALID
    strange = msgspec.structs.replace(endpoint(stage), job_id=JobId("nobody"))
    assert code(stage.world.do(strange)) == Reason.NOT_FOUND


def test_a_repeated_request_adds_nothing_and_says_where_it_was_answered() -> None:
    world = World()
    ask = c.SubmitJob(
        spec=JobSpec(name="n", kind="k", target="t"), count=1, request_key="r", request_digest=b"1"
    )
    first = world.do(ask)
    assert isinstance(first, Accepted)
    position = world.state.position
    assert world.do(ask) == Accepted((), Repeated(position))
    assert code(world.do(msgspec.structs.replace(ask, request_digest=b"2"))) == Reason.KEY_REUSED
    assert len(world.state.jobs) == 1
    survives(world)
    assert thaw(freeze(world.state)).requests["r"].position == position


def test_a_refused_request_is_not_remembered() -> None:
    world = World()
    ask = c.KillJob(job_id=JOB, request_key="r")
    assert code(world.do(ask)) == Reason.NOT_FOUND
    world.submit(JOB, 1)
    assert len(world.did(ask)) == 3


def test_requests_are_forgotten_by_record_after_a_quarter_of_an_hour() -> None:
    world = World()
    world.did(c.PauseQueue(queue="slow", request_key="r"))
    world.sleep(899_999)
    assert world.tick() == ()
    world.sleep(1)
    assert world.tick() == (e.RequestsForgotten(keys=("r",)),)
    assert world.state.requests == {}


def test_a_job_whose_feeder_fell_silent_is_sealed_as_interrupted() -> None:
    world = World()
    world.submit(JOB, items=(b"a",), sealed=False)
    (sealed,) = world.tick(silent=(JOB, JobId("nobody")))
    assert sealed == e.JobSealed(job_id=JOB, count=1, interrupted=True)
    assert world.tick(silent=(JOB,)) == ()
    assert world.troubles() == ()


def test_a_restart_of_a_server_leaves_the_jobs_of_feeders_elsewhere_open() -> None:
    world = World()
    world.submit(JOB, items=(b"a",), sealed=False)
    world.crash()
    world.open(served=True)
    assert not world.state.jobs[JOB].sealed
    world.crash()
    world.open(served=False)
    assert world.state.jobs[JOB].interrupted

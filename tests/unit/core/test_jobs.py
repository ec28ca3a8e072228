"""What a job keeps: its items, when it last changed, and how far it was fed."""

from collections.abc import Callable

import pytest

from holdfast.core import commands as c
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.core.ids import Index, Instant, Position, WorkerId
from holdfast.core.spec import JobSpec
from holdfast.testing.stages import JOB, Stage, stage_of
from holdfast.testing.world import MAIL, POST, World

W = WorkerId("w")
ITEMS = (b"a", b"b", b"c", b"d")
HURRIED = JobSpec(name="n", kind="k", target="t", job_timeout_ms=100)


def kept(world: World) -> list[bytes | None] | None:
    return world.state.jobs[JOB].payloads


def half_done(spec: JobSpec = HURRIED) -> World:
    """Of four items the first is done, the second fails for good, the third runs, one waits."""
    world = World()
    world.submit(JOB, items=ITEMS, spec=spec)
    one, two, three = world.grant(JOB, 0, 1, 2)
    world.commit(JOB, 0, one)
    world.fail(JOB, 1, two)
    world.start(JOB, 2, three)
    return world


def test_what_a_limit_stopped_comes_back_with_its_items() -> None:
    world = half_done()
    world.sleep(100)
    world.tick()
    assert kept(world) == [None, b"b", b"c", b"d"]
    world.did(c.RetryTasks(job_id=JOB))
    job = world.state.jobs[JOB]
    back = tuple(map(Index, (1, 2, 3)))
    assert list(job.payloads_of(back)) == [b"b", b"c", b"d"]
    assert world.leasable() == {JOB: [1, 2, 3]}
    for index, lease_id in zip(back, world.grant(JOB, *back), strict=True):
        world.commit(JOB, index, lease_id)
    assert kept(world) is None
    assert world.troubles() == ()


def test_what_a_person_stopped_keeps_no_item_and_what_failed_does() -> None:
    world = half_done()
    world.did(c.KillTasks(job_id=JOB, indices=(Index(2),)))
    assert kept(world) == [None, b"b", None, b"d"]
    world.did(c.KillJob(job_id=JOB))
    assert kept(world) == [None, b"b", None, None]


def test_an_array_keeps_what_its_tasks_share_until_none_can_run() -> None:
    world = World()
    world.do(c.SubmitJob(job_id=JOB, spec=HURRIED, count=2, shared=b"all"))
    job = world.state.jobs[JOB]
    for index in (0, 1):
        payloads = iter(job.payloads_of((Index(0), Index(1))))
        assert [next(payloads), next(payloads)] == [b"all", b"all"]
        (lease_id,) = world.grant(JOB, index)
        world.commit(JOB, index, lease_id)
    assert (job.payloads, job.shared) == (None, b"")


CHANGES: dict[str, tuple[str, Callable[[Stage], object]]] = {
    "granted": ("fresh", lambda s: s.world.grant(JOB)),
    "started": ("leased", lambda s: s.world.start(JOB, 0, s.lease_id)),
    "completed": ("running", lambda s: s.world.commit(JOB, 0, s.lease_id)),
    "committed": ("running", lambda s: s.world.commit(JOB, 0, s.lease_id, owed=(MAIL, POST))),
    "delivered": (
        "committed, owing two",
        lambda s: s.world.confirm(JOB, 0, 0),
    ),
    "done": (
        "committed, owing one",
        lambda s: s.world.confirm(JOB, 0, 0),
    ),
    "returned": ("running", lambda s: s.world.release(JOB, 0, s.lease_id)),
    "killed": ("running", lambda s: s.world.did(c.KillJob(job_id=JOB))),
    "moved": ("fresh", lambda s: s.world.did(c.RescheduleTask(job_id=JOB, index=Index(0)))),
    "retried": ("quarantined", lambda s: s.world.did(c.RetryTasks(job_id=JOB))),
    "fed": (
        "fresh in an open job",
        lambda s: s.world.did(c.AddTasks(job_id=JOB, first=1, items=(b"x",))),
    ),
    "sealed": ("fresh in an open job", lambda s: s.world.did(c.SealJob(job_id=JOB, count=1))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_job_tells_when_it_last_changed(change: str) -> None:
    name, make = CHANGES[change]
    stage = stage_of(name)
    stage.world.sleep(7)
    before, records = stage.world.state.jobs[JOB].updated_at, len(stage.world.log)
    make(stage)
    assert len(stage.world.log) == records + 1
    assert stage.world.state.jobs[JOB].updated_at == stage.world.now > before


def test_a_feeder_is_told_how_many_items_there_are_now() -> None:
    world = World()
    world.submit(JOB, items=(b"a",), sealed=False)
    for first, items, count in ((1, (b"b", b"c"), 3), (1, (b"b", b"c"), 3), (3, (), 3)):
        decision = world.do(c.AddTasks(job_id=JOB, first=first, items=items))
        assert isinstance(decision, Accepted)
        assert decision.answer == count
    world.did(c.KillJob(job_id=JOB))
    late = world.do(c.AddTasks(job_id=JOB, first=3, items=(b"d",)))
    assert isinstance(late, Refused)
    assert (late.code, "was cancelled" in late.message) == (Reason.JOB_SEALED, True)


def test_a_submit_whose_count_is_not_that_of_its_items_is_refused() -> None:
    world = World()
    odd = c.SubmitJob(job_id=JOB, spec=HURRIED, items=ITEMS, count=3)
    decision = world.do(odd)
    assert isinstance(decision, Refused)
    assert decision.message == "3 tasks were announced and 4 came"


def test_a_renewal_gives_no_end_to_a_lease_that_has_none() -> None:
    world = World()
    world.submit(JOB, 2)
    world.grant(JOB, 0)
    world.grant(JOB, 1, term_ms=100)
    world.did(c.ExtendLeases(worker=W, incarnation=1, term_ms=500))
    ends = [world.task(JOB, index).expires_at for index in (0, 1)]
    assert ends == [0, Instant(world.now + 500)]


def test_only_a_newer_snapshot_is_noted() -> None:
    world = World()
    world.submit(JOB)
    world.grant(JOB)
    for place, noted in ((2, True), (2, False), (1, False), (3, True)):
        command = c.InstallSnapshot(at_position=Position(place), state_hash="x")
        assert bool(world.did(command)) is noted
    ahead = c.InstallSnapshot(at_position=Position(len(world.log) + 1), state_hash="x")
    assert isinstance(world.do(ahead), Refused)

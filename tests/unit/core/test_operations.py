"""Operations are announced, found again by their key and ended once; what they stopped can wait
again as long as nothing else has happened to it."""

import pytest

from holdfast.core import commands as c
from holdfast.core import commands_operations as o
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision, Refused
from holdfast.core.ids import Index, JobId, Position
from holdfast.core.job import JobState, job_state, state_of
from holdfast.core.operation import KEPT, REQUEST_BYTES, UNDO
from holdfast.core.task import TaskState
from holdfast.testing.stages import GANG, JOB, SPEC, STAGES, stage_of
from holdfast.testing.world import World


def begin(verb: str = "cancel_jobs", **words: object) -> o.BeginOperation:
    told = {"request": b"{}", "digest": b"d", "asked_by": "ann", **words}
    return o.BeginOperation(verb=verb, **told)


def code_of(decision: Decision) -> str:
    return decision.code.value if isinstance(decision, Refused) else ""


def test_an_operation_is_called_by_its_first_record_and_found_by_its_key() -> None:
    world = World()
    first = world.do(begin(key="k"))
    assert isinstance(first, Accepted)
    assert first.answer == f"op-{world.state.position}"
    again = world.do(begin(key="k"))
    assert again == Accepted((), first.answer)
    assert code_of(world.do(begin(key="k", digest=b"other"))) == "key_reused"
    world.did(o.EndOperation(operation_id=str(first.answer), outcomes=(("jobs", 3),)))
    known = world.state.operations[str(first.answer)]
    assert (known.last, known.outcomes) == (world.state.position, (("jobs", 3),))
    assert world.do(o.EndOperation(operation_id=str(first.answer), outcomes=())).events == ()
    assert world.replayed().operations == world.state.operations


def test_an_operation_is_undone_once_and_an_undo_never() -> None:
    world = World()
    world.did(begin())
    (name,) = world.state.operations
    assert code_of(world.do(begin(UNDO))) == "invalid"
    assert code_of(world.do(begin(undoes=name))) == "invalid"
    assert code_of(world.do(begin(UNDO, undoes="op-0"))) == "not_found"
    undo = world.do(begin(UNDO, undoes=name))
    assert isinstance(undo, Accepted)
    assert world.state.operations[name].undone_by == undo.answer
    assert code_of(world.do(begin(UNDO, undoes=name))) == "conflict"
    assert code_of(world.do(begin(UNDO, undoes=str(undo.answer)))) == "invalid_transition"


def test_what_cannot_be_an_operation_is_refused() -> None:
    world = World()
    assert code_of(world.do(begin("dance"))) == "invalid"
    assert code_of(world.do(begin(request=b"x" * (REQUEST_BYTES + 1)))) == "too_large"
    assert code_of(world.do(o.EndOperation(operation_id="op-0", outcomes=()))) == "not_found"


def test_only_the_newest_operations_stay_in_memory() -> None:
    world = World()
    for _ in range(KEPT + 3):
        world.did(begin())
    assert len(world.state.operations) == KEPT
    assert "op-2" not in world.state.operations
    assert world.troubles() == ()


def killed() -> World:
    """Of three items one runs, one is leased and one waits; then a person stops the job."""
    world = World()
    world.submit(JOB, items=(b"a", b"b", b"c"), spec=SPEC)
    leases = world.grant(JOB, 0, 1)
    world.start(JOB, 0, leases[0])
    world.did(c.KillJob(job_id=JobId(JOB)))
    return world


def restore(world: World, *indices: int, **words: object) -> o.RestoreTasks:
    items = tuple(b"abc"[at : at + 1] for at in indices)
    told = {"killed_at": world.state.position, "items": items, **words}
    return o.RestoreTasks(job_id=JobId(JOB), indices=tuple(map(Index, indices)), **told)


def test_what_was_stopped_waits_again_with_its_item_in_a_new_generation() -> None:
    world = killed()
    job = world.state.jobs[JobId(JOB)]
    assert job.payloads is None
    (event,) = world.did(restore(world, 1, 2))
    assert isinstance(event, e.TasksRestored)
    assert job_state(job) is JobState.RUNNING
    assert (job.generation, job.payloads) == (2, [None, b"b", b"c"])
    assert world.leasable() == {JOB: [1, 2]}
    assert world.task(JOB, 1).attempt == 1
    assert world.troubles() == ()
    (lease,) = world.grant(JOB, 2)
    world.commit(JOB, 2, lease)
    assert state_of(job, Index(2)) is TaskState.SUCCEEDED


def test_what_was_to_begin_later_still_does_after_it_was_restored() -> None:
    world = World()
    wall = world.wall + 50_000
    world.submit(JOB, items=(b"a",), spec=SPEC, delay_ms=9_000)
    world.submit("dated", items=(b"a",), spec=SPEC, not_before_wall=wall)
    for job_id in (JOB, "dated"):
        world.did(c.KillJob(job_id=JobId(job_id)))
        words = {"indices": (Index(0),), "items": (b"a",), "killed_at": world.state.position}
        world.did(o.RestoreTasks(job_id=JobId(job_id), **words))
    assert not world.leasable()
    world.sleep(9_000)
    assert world.leasable() == {JOB: [0]}
    world.sleep(50_000)
    while world.tick():
        pass
    assert world.leasable() == {JOB: [0], "dated": [0]}
    assert world.troubles() == ()


def test_what_has_happened_since_leaves_a_task_as_it_is() -> None:
    world = killed()
    stale = restore(world, 1, 2)
    world.did(stale)
    world.did(c.KillTasks(job_id=JobId(JOB), indices=(Index(2),)))
    assert world.do(stale).answer == 0
    assert world.do(restore(world, 2, killed_at=Position(1))).answer == 0


def test_items_and_tasks_must_agree_and_exist() -> None:
    world = killed()
    assert code_of(world.do(restore(world, 1, 2, items=(b"a",)))) == "invalid"
    assert code_of(world.do(restore(world, 7))) == "not_found"
    nobody = o.RestoreTasks(job_id=JobId("nobody"), killed_at=Position(1), indices=())
    assert code_of(world.do(nobody)) == "not_found"


def test_a_gang_comes_back_whole_or_not_at_all() -> None:
    world = World()
    world.submit(JOB, items=(b"a", b"b"), spec=GANG)
    world.did(c.KillJob(job_id=JobId(JOB)))
    assert world.do(restore(world, 1)).answer == 0
    assert world.do(restore(world, 0, 1)).answer == 2


@pytest.mark.parametrize("name", STAGES)
def test_only_what_a_person_stopped_is_restored(name: str) -> None:
    stage = stage_of(name)
    ends = stage.world.state.jobs[JobId(JOB)].ends or [0]
    before = stage.world.fingerprint()
    decision = stage.world.do(restore(stage.world, 0, killed_at=Position(ends[0])))
    if name == "killed by a person":
        assert state_of(stage.world.state.jobs[JobId(JOB)], Index(0)) is TaskState.WAITING
    else:
        assert getattr(decision, "events", ()) == ()
        assert stage.world.fingerprint() == before
    assert stage.world.troubles() == ()


def test_many_tasks_move_at_once_and_the_record_says_from_when() -> None:
    world = World()
    world.submit(JOB, items=(b"a", b"b", b"c"), spec=SPEC, delay_ms=500)
    job_id, every = JobId(JOB), tuple(map(Index, range(3)))
    events = world.did(o.RescheduleTasks(job_id=job_id, indices=every, delay_ms=9_000))
    moved = [event for event in events if isinstance(event, e.TaskRescheduled)]
    assert [(event.index, event.before) for event in moved] == [
        (at, world.now + 500) for at in every
    ]
    world.did(o.RescheduleTasks(job_id=job_id, indices=every[:1]))
    world.grant(JOB, 0)
    assert world.do(o.RescheduleTasks(job_id=job_id, indices=every, delay_ms=1)).answer == 2
    wrong = o.RescheduleTasks(job_id=job_id, indices=every, delay_ms=-1)
    assert code_of(world.do(wrong)) == "invalid"
    assert world.troubles() == ()

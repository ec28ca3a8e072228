"""A record reads as a story, with the names that users search for."""

import json
from random import Random

import pytest

from holdfast.core import commands as c
from holdfast.core.ids import JobId, WorkerId
from holdfast.core.spec import JobSpec
from holdfast.core.transactions import (
    Action,
    Transaction,
    to_json,
    transaction_of,
    worker_registered,
)
from holdfast.testing.stages import JOB, stage_of
from holdfast.testing.strategies import any_command, pass_time
from holdfast.testing.world import World

W = WorkerId("w")


def last(world: World) -> Transaction:
    place, record = world.records()[-1]
    return transaction_of(record, place)


def told(world: World) -> list[tuple[str, str]]:
    return [(action.action, action.entity) for action in last(world).actions]


def the(world: World, name: str) -> Action:
    (action,) = [action for action in last(world).actions if action.action == name]
    return action


def test_a_submit_creates_its_tasks_as_one_range() -> None:
    world = World()
    world.submit("j", 1_000)
    assert told(world) == [("task_created", "j/0-999"), ("job_submitted", "j")]
    assert the(world, "job_submitted").details == {"num_tasks": 1_000}
    assert the(world, "task_created").details == {"job_id": "j"}


def test_ten_thousand_tasks_read_as_one_line() -> None:
    world = World()
    world.submit("j", 10_000)
    world.did(c.KillJob(job_id=JOB, reason="enough"))
    assert told(world) == [("job_cancelled", "j"), ("task_killed", "j/0-9999")]


def test_an_assignment_names_its_worker_and_joins_neighbours() -> None:
    world = World()
    world.submit("j", 5)
    world.grant("j", 0, 1, 2, 4)
    assert told(world) == [("task_assigned", "j/0-2"), ("task_assigned", "j/4")]
    assert last(world).actions[0].details == {"worker_id": "w", "attempt": 1}


def test_a_start_is_told_and_noted_with_its_time() -> None:
    stage = stage_of("leased")
    stage.world.sleep(5)
    stage.world.start(JOB, 0, stage.lease_id)
    assert told(stage.world) == [("task_running", "j/0")]
    assert stage.world.task(JOB).started_at == stage.world.now


def test_a_success_has_an_exit_code_and_frees_its_worker() -> None:
    stage = stage_of("running")
    stage.world.commit(JOB, 0, stage.lease_id)
    assert told(stage.world) == [("task_succeeded", "j/0"), ("task_unassigned", "j/0")]
    assert the(stage.world, "task_succeeded").details == {"exit_code": 0}
    assert the(stage.world, "task_unassigned").details == {"worker_id": "w"}
    assert (W, 1) not in stage.world.state.holders


def test_a_failure_says_whether_it_will_be_tried_again() -> None:
    world = stage_of("backing off").world
    assert told(world) == [
        ("task_failed", "j/0"),
        ("task_unassigned", "j/0"),
        ("task_requeued", "j/0"),
    ]
    failed = the(world, "task_failed").details
    assert (failed["error"], failed["can_retry"], failed["exit_code"]) == ("boom", True, 1)


def test_the_last_failure_ends_in_quarantine() -> None:
    world = stage_of("quarantined").world
    assert ("task_quarantined", "j/0") in told(world)
    assert the(world, "task_failed").details["can_retry"] is False


def test_a_lost_worker_and_its_tasks_are_one_transaction() -> None:
    world = World()
    world.submit("j", 2)
    leases = world.grant("j", 0, 1)
    world.start("j", 0, leases[0])
    world.did(c.LoseWorker(worker=W, incarnation=1, error="no answer"))
    names = [name for name, _ in told(world)]
    assert names.count("task_worker_failed") == 2
    assert names[-1] == "worker_failed"
    assert the(world, "worker_failed").details == {"error": "no answer"}
    lost = [a for a in last(world).actions if a.action == "task_worker_failed"]
    assert [a.details["worker_id"] for a in lost] == ["w", "w"]
    assert [a.details["can_retry"] for a in lost] == [True, True]


def test_a_cancel_names_its_reason_for_the_job_and_for_each_task() -> None:
    world = World()
    world.submit("j", 3)
    world.grant("j", 0)
    world.did(c.KillJob(job_id=JOB, reason="wrong input"))
    assert the(world, "job_cancelled").details["reason"] == "wrong input"
    killed = [action for action in last(world).actions if action.action == "task_killed"]
    assert {action.entity for action in killed} == {"j/0", "j/1-2"}
    assert {action.details["reason"] for action in killed} == {"wrong input"}


def test_what_a_limit_kills_is_in_the_transaction_of_its_cause() -> None:
    world = World()
    world.submit("j", 3, spec=JobSpec(name="n", kind="k", target="t", max_failed_tasks=0))
    leases = world.grant("j", 0, 1)
    world.fail("j", 0, leases[0])
    names = [name for name, _ in told(world)]
    assert names[:3] == ["task_running", "task_failed", "task_unassigned"]
    assert {"task_quarantined", "job_cancelled", "task_killed"} <= set(names)


def test_deliveries_are_told_one_by_one() -> None:
    world = stage_of("committed, owing two").world
    assert the(world, "task_committed").details == {"owed": 2}
    world.confirm(JOB, 0, 0)
    assert told(world) == [("effect_delivered", "j/0.0")]
    world.confirm(JOB, 0, 1)
    assert told(world) == [("effect_delivered", "j/0.1"), ("task_succeeded", "j/0")]


def test_a_retry_requeues() -> None:
    world = stage_of("quarantined").world
    world.did(c.RetryTasks(job_id=JOB))
    assert told(world) == [("task_retried", "j/0"), ("task_requeued", "j/0")]


def test_a_worker_that_registers_is_spelled_like_the_rest() -> None:
    assert worker_registered("w", "10.0.0.1:7") == Action(
        "worker_registered", "w", {"address": "10.0.0.1:7"}
    )


def test_a_transaction_carries_who_asked_and_why() -> None:
    world = World(actor="alice")
    world.do(c.SubmitJob(job_id=JOB, spec=JobSpec(name="n", kind="k", target="t"), count=1),
             request_id="r1", reason="nightly")  # fmt: skip
    shown = to_json(last(world))
    assert list(shown) == [
        "position", "time", "command", "actor", "request_id", "reason", "events", "actions",
    ]  # fmt: skip
    assert (shown["position"], shown["time"]) == (2, world.now)
    assert (shown["command"], shown["actor"]) == ("SubmitJob", "alice")
    assert (shown["request_id"], shown["reason"]) == ("r1", "nightly")
    assert shown["events"][0]["type"] == "JobSubmitted"
    assert shown["events"][0]["count"] == 1


def test_payloads_and_results_are_shown_by_size_alone() -> None:
    world = World()
    world.submit("j", items=(b"secret",))
    assert "secret" not in json.dumps(to_json(last(world)))
    assert to_json(last(world))["events"][0]["items"] == [{"bytes": 6}]


@pytest.mark.parametrize("shard", range(4))
def test_any_history_can_be_told_and_written_as_json(shard: int, dice: Random) -> None:
    world = World()
    for _ in range(100):
        pass_time(world, dice)
        world.do(any_command(world, dice))
    for place, record in world.records():
        transaction = transaction_of(record, place)
        assert transaction == transaction_of(record, place)
        assert json.loads(json.dumps(to_json(transaction)))["position"] == place
        assert transaction.actions
        assert all(action.entity for action in transaction.actions)


def test_the_story_of_a_job_of_its_own_name_uses_that_name() -> None:
    world = World()
    world.submit("report-2024", 2)
    assert the(world, "job_submitted").entity == JobId("report-2024")

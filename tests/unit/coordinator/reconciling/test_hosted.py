"""Runtimes on a real coordinator, with workers played by hand."""

import pytest
from msgspec.structs import replace

from holdfast.core import commands as c
from holdfast.core import commands_resources as r
from holdfast.core.task import TaskState
from holdfast.runtimes.manifest import ClassRuntime, decode, encode
from holdfast.runtimes.status import Status
from holdfast.testing.hosted import Hosted, function, manifest


def status(hosted: Hosted) -> Status:
    resource = hosted.read()
    assert resource is not None
    return resource.status


def degraded_reason(hosted: Hosted) -> str:
    return next(each.reason for each in status(hosted).conditions if each.type == "Degraded")


def whole(hosted: Hosted) -> None:
    """Nothing is wrong anywhere, and nothing was begun twice."""
    hosted.service.check()
    assert hosted.service.troubles == []
    assert all(count == 1 for host in hosted.hosts for count in host.begun.values())


def test_a_declared_runtime_comes_up_and_is_found_by_its_endpoints(hosted: Hosted) -> None:
    hosted.apply(
        manifest(
            "greeter",
            function("hello", replicas=2),
            function("bye"),
            odgm={"command": ["serve"], "partitions": 4},
        )
    )
    hosted.settle()
    assert hosted.phase() == "available"
    assert len(hosted.running()) == 4
    assert hosted.reasons() == [
        "Declared", "Applying", "Applied", "AwaitingReadiness", "Available",
    ]  # fmt: skip
    routers = {each.service: len(each.addresses) for each in status(hosted).routers}
    assert routers == {"greeter--hello": 2, "greeter--bye": 1, "greeter---odgm": 1}
    refs = [each.told for each in status(hosted).resource_refs]
    assert "Deployment/greeter--hello" in refs
    assert "OdgmDeployment/greeter---odgm" in refs
    whole(hosted)


@pytest.mark.slow
def test_a_steady_runtime_writes_nothing(hosted: Hosted) -> None:
    hosted.apply(manifest())
    hosted.pass_time(5_000)
    before = len(hosted.service.records())
    hosted.pass_time(700_000, step_ms=5_000)
    written = [each.actor for each in hosted.service.records()[before:]]
    assert "runtimes" not in written


def test_a_replica_that_ends_by_itself_comes_back(hosted: Hosted) -> None:
    hosted.apply(manifest())
    hosted.settle()
    victim = hosted.running()[0]
    hosted.host_of(victim).end(victim)
    hosted.settle()
    assert hosted.phase() == "progressing"
    hosted.pass_time(2_000)
    assert hosted.phase() == "available"
    assert len(hosted.running()) == 2
    whole(hosted)


def test_002_22_deleting_takes_everything_away_and_the_finalizer_goes_last(hosted: Hosted) -> None:
    hosted.apply(manifest("greeter", function("hello", "silent", replicas=3)))
    hosted.settle()
    assert hosted.phase() == "progressing"
    hosted.delete()
    hosted.pass_time(3_000)
    assert hosted.read() is None
    assert hosted.running() == []
    assert hosted.service.coordinator.state.resources == {}
    assert all(job.sealed and not job.unfinished for job in hosted.jobs())
    whole(hosted)


def test_functions_that_come_and_go_leave_no_orphan(hosted: Hosted) -> None:
    keys = ("a", "b", "c", "d", "e")
    for count in (2, 5, 1):
        hosted.apply(manifest("greeter", *(function(key) for key in keys[:count])))
        hosted.pass_time(5_000)
        assert hosted.phase() == "available"
        assert len(hosted.running()) == count
    resources = [name for _, name in hosted.service.coordinator.state.resources]
    assert sorted(resources) == ["greeter", "greeter--a"]
    assert "Orphaned" in hosted.reasons()
    whole(hosted)


def test_a_bad_generation_degrades_with_its_last_words_and_a_good_one_recovers(
    hosted: Hosted,
) -> None:
    hosted.apply(manifest())
    hosted.settle()
    before = hosted.running()
    hosted.apply(manifest("greeter", function("hello", "crash", replicas=2)))
    hosted.pass_time(20_000)
    assert (hosted.phase(), degraded_reason(hosted)) == ("degraded", "CrashLoop")
    message = next(each.message for each in status(hosted).conditions if each.type == "Degraded")
    assert "last words" in message
    # The old ones go on meanwhile.
    assert set(before) <= set(hosted.running())
    hosted.apply(manifest("greeter", function("hello", replicas=2, env={"GOOD": "1"})))
    hosted.pass_time(20_000)
    assert hosted.phase() == "available"
    assert len(hosted.running()) == 2
    assert not set(before) & set(hosted.running())
    whole(hosted)


@pytest.mark.slow
def test_a_port_that_never_opens_is_a_timeout(hosted: Hosted) -> None:
    hosted.apply(
        manifest("greeter", function("hello", "silent"), timeouts={"progress": "30s"})
    )
    hosted.pass_time(40_000, step_ms=1_000)
    assert (hosted.phase(), degraded_reason(hosted)) == ("degraded", "Timeout")


def test_a_new_revision_replaces_the_old_one_without_a_gap(hosted: Hosted) -> None:
    hosted.apply(manifest("greeter", function("hello", replicas=3)))
    hosted.settle()
    before = set(hosted.running())
    least = most = 3
    hosted.apply(manifest("greeter", function("hello", replicas=3, env={"NEW": "1"})))
    for _ in range(40):
        hosted.clock.advance(100)
        hosted.service.settle()
        for host in hosted.hosts:
            host.talk()
            ready = len(hosted.service.coordinator.state.endpoints.get("greeter--hello", ()))
            least, most = min(least, ready), max(most, len(hosted.running()))
    assert hosted.phase() == "available"
    assert not before & set(hosted.running())
    assert (least, most <= 4) == (3, True)
    whole(hosted)


def test_scaling_changes_the_count_and_replaces_nobody(hosted: Hosted) -> None:
    for count in (2, 5, 1, 0, 2):
        before = set(hosted.running())
        hosted.apply(manifest("greeter", function("hello", replicas=count)))
        hosted.pass_time(3_000)
        running = set(hosted.running())
        assert hosted.phase() == "available"
        assert len(running) == count
        assert len(before & running) == min(len(before), count)
    whole(hosted)


@pytest.mark.slow
def test_a_rollout_in_steps_pauses_and_says_how_far_it_is(hosted: Hosted) -> None:
    rollout = {"steps": ["50%", "100%"], "pause": "60s"}
    hosted.apply(manifest("greeter", function("hello", replicas=4, rollout=rollout)))
    hosted.settle()
    before = set(hosted.running())
    changed = function("hello", replicas=4, rollout=rollout, env={"NEW": "1"})
    hosted.apply(manifest("greeter", changed))
    hosted.pass_time(20_000)
    assert len(before & set(hosted.running())) == 2
    progress = status(hosted).functions[0].rollout
    assert progress is not None
    assert (progress.step, progress.steps, progress.updated) == (1, 2, 2)
    assert hosted.phase() == "progressing"
    hosted.service.crash()
    hosted.pass_time(70_000)
    assert not before & set(hosted.running())
    assert hosted.phase() == "available"


def test_another_restart_policy_reaches_every_replica_by_a_rolling_replacement(
    hosted: Hosted,
) -> None:
    hosted.apply(manifest("greeter", function("hello", replicas=2, restarts={"max": 2})))
    hosted.pass_time(2_000)
    before = set(hosted.running())
    hosted.apply(manifest("greeter", function("hello", replicas=2, restarts={"max": 7})))
    fewest = len(before)
    for _ in range(20):
        hosted.pass_time(500)
        fewest = min(fewest, len(hosted.running()))
    after = set(hosted.running())
    assert len(after) == 2
    assert not before & after
    assert fewest == 2
    assert hosted.phase() == "available"
    (job,) = [job for job in hosted.jobs() if not job.sealed]
    assert job.spec.service.restarts == 7


def test_a_better_restart_policy_gets_what_crash_looped_begun_again(hosted: Hosted) -> None:
    once = {"max": 1, "refill": "1h", "delay": "100ms"}
    hosted.apply(manifest("greeter", function("hello", "crash", restarts=once)))
    hosted.pass_time(5_000)
    begun = sum(sum(host.begun.values()) for host in hosted.hosts)
    hosted.pass_time(5_000)
    assert sum(sum(host.begun.values()) for host in hosted.hosts) == begun
    more = {"max": 3, "refill": "1h", "delay": "100ms"}
    hosted.apply(manifest("greeter", function("hello", "crash", restarts=more)))
    hosted.pass_time(5_000)
    assert sum(sum(host.begun.values()) for host in hosted.hosts) >= begun + 3


def test_another_health_check_reaches_every_replica(hosted: Hosted) -> None:
    hosted.apply(manifest("greeter", function("hello", health={"path": "/", "failures": 3})))
    hosted.pass_time(2_000)
    hosted.apply(manifest("greeter", function("hello", health={"path": "/", "failures": 9})))
    hosted.pass_time(5_000)
    plans = [plan for host in hosted.hosts for _, _, plan in host.running.values()]
    assert [plan.ready.failures for plan in plans if plan.ready] == [9]


@pytest.mark.slow
def test_a_spent_budget_of_restarts_comes_back_with_time(hosted: Hosted) -> None:
    restarts = {"max": 2, "refill": "60s", "delay": "100ms"}
    hosted.apply(manifest("greeter", function("hello", "crash", restarts=restarts)))
    hosted.pass_time(5_000, step_ms=100)
    (job,) = hosted.jobs()
    assert job.states[0] == TaskState.QUARANTINED
    assert degraded_reason(hosted) == "CrashLoop"
    before = sum(host.begun.total() for host in hosted.hosts)
    hosted.pass_time(200_000, step_ms=1_000)
    assert sum(host.begun.total() for host in hosted.hosts) > before


def test_what_a_deleted_owner_left_behind_goes_as_well(hosted: Hosted) -> None:
    hosted.apply(manifest())
    hosted.settle()
    # Somebody takes the finalizer away by hand: the children are nobody's then.
    hosted.service.do(r.SetResourceFinalizers(kind="ClassRuntime", name="greeter", finalizers=()))
    hosted.delete()
    hosted.pass_time(5_000)
    assert hosted.service.coordinator.state.resources == {}
    assert hosted.running() == []


def test_what_no_worker_could_carry_out_is_told_and_harms_nobody(hosted: Hosted) -> None:
    found = decode(manifest("greeter", function("hello")))
    assert isinstance(found, ClassRuntime)
    # As a version that looked less closely might have written it down.
    bad = replace(found.spec, functions=(replace(found.spec.functions[0], command=("$PORT_A",)),))
    hosted.service.do(r.PutResource(kind="ClassRuntime", name="greeter", spec=encode(bad)))
    hosted.apply(manifest("other"))
    hosted.settle()
    assert degraded_reason(hosted) == "ApplyInvalid"
    message = next(each.message for each in status(hosted).conditions if each.type == "Degraded")
    assert "$PORT_A is no port of this service" in message
    assert hosted.phase("other") == "available"
    hosted.apply(manifest("greeter", function("hello")))
    hosted.pass_time(3_000)
    assert hosted.phase() == "available"


def test_a_job_that_a_person_cancelled_is_begun_anew(hosted: Hosted) -> None:
    hosted.apply(manifest())
    hosted.settle()
    (job,) = hosted.jobs()
    before = set(hosted.running())
    hosted.service.do(c.KillJob(job_id=job.job_id))
    hosted.pass_time(3_000)
    assert hosted.phase() == "available"
    assert len(hosted.running()) == 2
    assert not before & set(hosted.running())


def test_a_deployment_that_cannot_be_read_is_left_as_it_is(hosted: Hosted) -> None:
    hosted.apply(manifest())
    hosted.settle()
    before = hosted.running()
    hosted.service.do(r.PutResource(kind="Deployment", name="greeter--hello", spec=b"new"))
    # Nor is anybody harmed by a runtime like that.
    hosted.service.do(r.PutResource(kind="ClassRuntime", name="newer", spec=b"new"))
    hosted.pass_time(3_000)
    hosted.service.crash()
    hosted.pass_time(3_000)
    assert hosted.running() == before
    reconciling = next(each for each in status(hosted).conditions if each.type == "Reconciling")
    assert reconciling.reason == "ObservationFailed"
    assert hosted.phase() == "available"


def test_a_lost_worker_is_replaced_by_another(hosted: Hosted) -> None:
    hosted.apply(manifest())
    hosted.settle()
    lost = hosted.host_of(hosted.running()[0])
    hosted.hosts.remove(lost)
    hosted.pass_time(40_000, step_ms=2_000)
    assert hosted.phase() == "available"
    assert len(hosted.running()) == 2


def test_a_worker_that_is_lost_does_not_hold_a_deletion_back_for_ever(hosted: Hosted) -> None:
    hosted.apply(manifest())
    hosted.settle()
    hosted.hosts.remove(hosted.host_of(hosted.running()[0]))
    hosted.delete()
    hosted.pass_time(5_000)
    assert hosted.phase() == "deleting"
    hosted.pass_time(30_000, step_ms=2_000)
    assert hosted.read() is None


def test_new_replicas_that_are_not_ready_are_no_rollout_that_is_over(hosted: Hosted) -> None:
    rollout = {"surge": "100%"}
    hosted.apply(manifest("greeter", function("hello", replicas=2, rollout=rollout)))
    hosted.settle()
    hosted.apply(manifest("greeter", function("hello", "silent", replicas=2, rollout=rollout)))
    hosted.pass_time(5_000)
    # As many are ready as are wanted, and as many of the newest revision run: but not the same.
    assert len(hosted.running()) == 4
    assert hosted.phase() == "progressing"
    assert status(hosted).functions[0].updated == 0


def test_a_restart_takes_nobody_for_down_that_takes_no_connections(hosted: Hosted) -> None:
    hosted.apply(manifest("greeter", function("hello", ports=[]), function("bye")))
    hosted.settle()
    assert hosted.phase() == "available"
    hosted.service.crash()
    # No worker has spoken since.
    hosted.service.settle()
    assert hosted.phase() == "available"
    hosted.pass_time(1_000)
    assert hosted.reasons() == []


def test_one_that_is_declared_anew_begins_without_the_past_of_the_other(hosted: Hosted) -> None:
    hosted.apply(manifest())
    hosted.settle()
    hosted.delete()
    hosted.pass_time(3_000)
    assert hosted.reasons() == []
    hosted.apply(manifest())
    hosted.settle()
    assert hosted.reasons()[:2] == ["Declared", "Applying"]
    assert hosted.phase() == "available"

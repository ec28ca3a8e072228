"""Jobs and tasks as plain values."""

import pytest

from holdfast.coordinator.views import job_detail, job_view, rfc3339, target_view, task_view
from holdfast.core import commands as c
from holdfast.core.ids import Index, Instant, JobId
from holdfast.core.spec import JobSpec
from holdfast.testing.world import World

OFFSET = 1_700_000_000_000


def wall(instant: int) -> int:
    return instant + OFFSET


@pytest.mark.parametrize(
    ("wall_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_007, "2023-11-14T22:13:20.007Z"),
        (1_700_000_000_999, "2023-11-14T22:13:20.999Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (10**15, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_is_rfc_3339_in_utc_with_milliseconds(wall_ms: int, text: str) -> None:
    assert rfc3339(wall_ms) == text


def test_the_counts_of_a_job_add_up_to_its_tasks() -> None:
    world = World()
    world.submit("", 5)
    (lease,) = world.grant("1", 3)
    world.start("1", 3, lease)
    view = job_view(world.state.jobs[JobId("1")], wall)
    assert sum(view["counts"].values()) == view["tasks"] == 5
    assert (view["counts"]["RUNNING"], view["counts"]["WAITING"]) == (1, 4)


def test_a_job_says_why_it_is_as_it_is() -> None:
    world = World()
    world.submit("", 2, key="k", sealed=True)
    world.did(c.KillJob(job_id=JobId("1")))
    view = job_view(world.state.jobs[JobId("1")], wall)
    assert (view["state"], view["reason"], view["key"]) == ("KILLED", "cancelled", "k")


def test_an_interrupted_job_says_so() -> None:
    world = World()
    world.submit("", items=(b"a",), sealed=False)
    open_view = job_view(world.state.jobs[JobId("1")], wall)
    assert (open_view["sealed"], open_view["interrupted"]) == (False, False)
    world.open()
    view = job_view(world.state.jobs[JobId("1")], wall)
    assert (view["sealed"], view["interrupted"]) == (True, True)
    assert view["reason"] == "interrupted"


def test_log_times_pass_through_the_wall_clock_and_calendar_times_do_not() -> None:
    world = World()
    spec = JobSpec(name="n", kind="k", target="t", job_timeout_ms=5_000)
    world.submit("", spec=spec, deadline_wall=OFFSET)
    view = job_detail(world.state.jobs[JobId("1")], wall)
    assert view["created_at"] == rfc3339(world.now + OFFSET)
    assert view["times_out_at"] == rfc3339(world.now + 5_000 + OFFSET)
    assert view["deadline"] == rfc3339(OFFSET)
    assert view["spec"]["job_timeout_ms"] == 5_000
    assert view["spec"]["timeout_ms"] is None


def test_the_body_of_a_pickled_function_is_never_shown() -> None:
    assert target_view("pickle:resize:gASVQAAAA") == "pickle:resize"
    assert target_view("shop:resize") == "shop:resize"


def test_a_task_that_waits_says_until_when() -> None:
    world = World()
    world.submit("", 2, delay_ms=700)
    job = world.state.jobs[JobId("1")]
    until = rfc3339(world.now + 700 + OFFSET)
    assert task_view(job, Index(0), wall)["not_before"] == until
    dated = Instant(OFFSET)
    world.did(c.RescheduleTask(job_id=JobId("1"), index=Index(1), not_before_wall=dated))
    assert task_view(job, Index(1), wall)["not_before"] == rfc3339(OFFSET)


def test_a_leased_task_says_who_holds_it() -> None:
    world = World()
    world.submit("")
    (lease,) = world.grant("1", 0, worker="crane", term_ms=1_000)
    view = task_view(world.state.jobs[JobId("1")], Index(0), wall)
    assert (view["state"], view["worker"], view["lease_id"]) == ("LEASED", "crane", lease)
    assert view["lease_expires_at"] == rfc3339(world.now + 1_000 + OFFSET)
    assert (view["started_at"], view["not_before"]) == (None, None)

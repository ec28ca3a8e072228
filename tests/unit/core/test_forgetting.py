"""What leaves memory, in which order, and what stays whatever the count."""

from typing import Any

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import JobId
from holdfast.testing.world import World

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def finish(world: World, *job_ids: str, key: bool = False) -> None:
    """One job after another is submitted and done, a second apart."""
    for job_id in job_ids:
        world.submit(job_id, key=f"key of {job_id}" if key else "")
        (lease_id,) = world.grant(job_id)
        world.commit(job_id, 0, lease_id)
        world.sleep(1_000)


def forgotten(world: World, **limits: Any) -> list[str]:
    events = [event for event in world.tick(**limits) if isinstance(event, e.JobsForgotten)]
    return [job_id for event in events for job_id in event.job_ids]


def keys_dropped(world: World, **limits: Any) -> list[str]:
    events = [event for event in world.tick(**limits) if isinstance(event, e.KeysForgotten)]
    return [key for event in events for key in event.keys]


def test_the_oldest_beyond_the_count_go_and_not_one_more() -> None:
    world = World()
    finish(world, "a", "b", "c", "d", "e")
    assert forgotten(world, keep_finished=5, keep_finished_ms=0) == []
    assert forgotten(world, keep_finished=3, keep_finished_ms=0) == ["a", "b"]
    assert list(world.state.jobs) == list(world.state.finished) == ["c", "d", "e"]
    assert world.troubles() == ()


def test_one_tick_forgets_no_more_than_it_may() -> None:
    world = World()
    finish(world, "a", "b", "c")
    assert forgotten(world, keep_finished=0, keep_finished_ms=0, most=2) == ["a", "b"]
    assert forgotten(world, keep_finished=0, keep_finished_ms=0, most=2) == ["c"]


def test_a_finished_job_is_kept_for_its_hour_and_not_longer() -> None:
    world = World()
    finish(world, "a", "b")
    world.sleep(HOUR_MS - 2_001)
    assert forgotten(world, keep_finished=0) == []
    world.sleep(1)
    assert forgotten(world, keep_finished=0) == ["a"]
    world.sleep(1_000)
    assert forgotten(world, keep_finished=0) == ["b"]


def test_who_is_looked_at_or_has_a_task_in_quarantine_stays_and_the_next_one_goes() -> None:
    world = World()
    finish(world, "looked at")
    world.submit("bad")
    (lease_id,) = world.grant("bad")
    world.fail("bad", 0, lease_id)
    finish(world, "a", "b")
    held = frozenset({JobId("looked at")})
    assert forgotten(world, keep_finished=3, keep_finished_ms=0, held=held) == ["a"]
    assert forgotten(world, keep_finished=0, keep_finished_ms=0, held=held) == ["b"]
    assert forgotten(world, keep_finished=0, keep_finished_ms=0) == ["looked at"]
    assert list(world.state.jobs) == ["bad"]
    world.did(c.RetryTasks(job_id=JobId("bad")))
    (lease_id,) = world.grant("bad")
    world.commit("bad", 0, lease_id)
    assert forgotten(world, keep_finished=0, keep_finished_ms=0) == ["bad"]


def test_a_key_lives_as_long_as_its_job_and_no_less_than_a_day() -> None:
    world = World()
    finish(world, "a", "b", key=True)
    world.sleep(DAY_MS - 2_000)
    assert keys_dropped(world) == [], "its job is still here"
    assert forgotten(world, keep_finished=0) == ["a", "b"]
    assert sorted(world.state.keys) == ["key of b"], "the day of the second is not over"
    world.sleep(1_000)
    assert keys_dropped(world) == ["key of b"]


def test_one_tick_drops_no_more_keys_than_it_may() -> None:
    world = World()
    finish(world, "a", "b", "c", key=True)
    forgotten(world, keep_finished=0, keep_finished_ms=0)
    world.sleep(DAY_MS)
    assert keys_dropped(world, most=2) == ["key of a", "key of b"]
    assert keys_dropped(world, most=2) == ["key of c"]

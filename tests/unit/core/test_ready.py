"""The line of jobs with something to lease: who stands in it, when, and in which order."""

from random import Random

from holdfast.core import commands as c
from holdfast.core.ids import NEVER, Index, Instant, JobId
from holdfast.core.ready import count_leasable, take
from holdfast.core.shape import shape_of
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.testing.stages import JOB
from holdfast.testing.world import World, in_line


def spec(*, target: str = "t", priority: int = 0, bundle: str = "") -> JobSpec:
    return JobSpec(name="n", kind="k", target=target, priority=priority, bundle=bundle)


def line(world: World) -> list[str]:
    ready = world.state.ready
    ready.wake(world.state.jobs, world.now)
    return [job.job_id for job in in_line(world.state, world.now)]


def taken(world: World, limit: int) -> list[int]:
    return list(take(world.state.jobs[JOB], world.now, limit))


def test_sleepers_wake_one_by_one_each_at_its_time() -> None:
    world = World()
    assert world.state.ready.next_wake() == NEVER
    for delay_ms in (300, 100, 200):
        world.submit(f"after {delay_ms}", delay_ms=delay_ms)
    assert world.state.ready.next_wake() == world.now + 100
    seen = []
    for _ in range(3):
        world.sleep(100)
        seen.append(line(world))
    first, second, third = "after 100", "after 200", "after 300"
    assert seen == [[first], [first, second], [third, first, second]]
    assert world.state.ready.next_wake() == NEVER


def test_a_task_that_comes_back_does_not_wait_behind_younger_jobs() -> None:
    world = World()
    for name in ("old", "middle", "young"):
        world.submit(name, 2)
    one, _ = world.grant("old", 0, 1)
    two, _ = world.grant("middle", 0, 1)
    assert line(world) == ["young"]
    world.release("middle", 0, two)
    assert line(world) == ["middle", "young"]
    world.release("old", 0, one)
    assert line(world) == ["old", "middle", "young"]
    world.crash(snapshot=True)
    assert line(world) == ["old", "middle", "young"]


def test_a_sleeper_that_was_forgotten_or_has_ended_wakes_nobody() -> None:
    world = World()
    world.submit("ended", delay_ms=100)
    world.submit("forgotten", delay_ms=100)
    for job_id in ("ended", "forgotten"):
        world.did(c.KillJob(job_id=JobId(job_id)))
    world.state.finished.rotate(1)
    world.tick(keep_finished=1, keep_finished_ms=0)
    assert list(world.state.jobs) == ["ended"]
    world.sleep(100)
    assert line(world) == []


def test_urgent_first_then_as_they_came_whatever_their_shape() -> None:
    world = World()
    world.submit("a", spec=spec(target="x"))
    world.submit("b", spec=spec(target="y"))
    world.submit("c", spec=spec(target="x"))
    world.submit("low", spec=spec(target="x", priority=-1))
    world.submit("high", spec=spec(target="z", priority=3))
    world.submit("d", spec=spec(target="y"))
    assert line(world) == ["high", "a", "b", "c", "d", "low"]


def test_jobs_of_one_priority_and_shape_are_one_row() -> None:
    world = World()
    for name, target in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")):
        world.submit(name, spec=spec(target=target))
    rows = world.state.ready.rows(world.state.jobs, world.now)
    assert [(row.shape.code, row.count) for row in rows] == [("x", 2), ("y", 2)]
    assert [row.head.job_id for row in rows if row.head] == ["a", "b"]
    rows[0].advance()
    assert rows[0].head is world.state.jobs[JobId("c")]
    rows[0].advance()
    assert rows[0].head is None


def test_a_job_leaves_the_line_with_its_last_task_and_comes_back_with_one() -> None:
    world = World()
    world.submit("first", spec=spec())
    world.submit(JOB, 2, spec=spec())
    one, _ = world.grant(JOB, 0, 1)
    assert line(world) == ["first"]
    world.grant("first", 0)
    assert line(world) == []
    assert not world.state.jobs[JOB].queued
    assert world.state.ready.queues == {}
    world.release(JOB, 0, one)
    assert line(world) == [JOB]
    assert taken(world, 5) == [0]


def test_those_that_came_back_go_before_fresh_ones_and_never_more_than_asked_for() -> None:
    world = World()
    world.submit(JOB, 6)
    leases = world.grant(JOB, 0, 1, 2)
    world.release(JOB, 2, leases[2])
    world.release(JOB, 0, leases[0])
    assert [taken(world, limit) for limit in range(6)] == [
        [], [2], [2, 0], [2, 0, 3], [2, 0, 3, 4], [2, 0, 3, 4, 5],
    ]  # fmt: skip
    world.grant(JOB, 4)
    assert taken(world, 4) == [2, 0, 3, 5]
    assert taken(world, 9) == [2, 0, 3, 5]


def test_a_task_that_came_back_more_than_once_is_taken_once() -> None:
    world = World()
    world.submit(JOB, 3)
    leases = world.grant(JOB, 0, 1, 2)
    world.release(JOB, 0, leases[0])
    world.release(JOB, 1, leases[1])
    # It leaves from behind the first and comes back: it stands in the line twice now.
    (again,) = world.grant(JOB, 1)
    world.release(JOB, 1, again)
    assert taken(world, 9) == [0, 1]


def test_one_that_backs_off_is_passed_over_until_its_time() -> None:
    world = World()
    patient = RetryPolicy(kind="fixed", delay_ms=100, jitter=0.0)
    again = JobSpec(name="n", kind="k", target="t", retries=3, retry=patient)
    world.submit(JOB, 3, spec=again)
    one, two, _ = world.grant(JOB, 0, 1, 2)
    world.fail(JOB, 0, one)
    world.sleep(50)
    world.fail(JOB, 1, two)
    assert line(world) == []
    assert world.state.ready.next_wake() == world.now + 50
    world.sleep(50)
    assert (line(world), taken(world, 9)) == ([JOB], [0])
    world.sleep(50)
    assert (line(world), taken(world, 9)) == ([JOB], [0, 1])


def test_one_that_was_moved_away_is_not_taken_by_its_old_place() -> None:
    world = World()
    world.submit(JOB, 2)
    one, two = world.grant(JOB, 0, 1)
    world.release(JOB, 0, one)
    world.release(JOB, 1, two)
    world.did(c.RescheduleTask(job_id=JOB, index=Index(0), delay_ms=100))
    wall = Instant(world.wall + 100)
    world.did(c.RescheduleTask(job_id=JOB, index=Index(1), not_before_wall=wall))
    assert (line(world), taken(world, 9)) == ([], [])
    world.sleep(100)
    assert (line(world), taken(world, 9)) == ([JOB], [0])
    world.tick()
    assert (line(world), taken(world, 9)) == ([JOB], [0, 1])


def test_in_whatever_order_they_come_back_the_line_is_by_age(dice: Random) -> None:
    world = World()
    names = [f"j{number}" for number in range(40)]
    leases = {}
    for name in names:
        world.submit(name)
        (leases[name],) = world.grant(name)
    assert line(world) == []
    for name in dice.sample(names, len(names)):
        world.release(name, 0, leases[name])
    assert line(world) == names
    assert world.troubles() == ()


def test_a_moved_task_does_not_bring_its_neighbours_before_their_time() -> None:
    world = World()
    world.submit(JOB, 3, delay_ms=1_000)
    world.did(c.RescheduleTask(job_id=JOB, index=Index(1)))
    assert (line(world), taken(world, 9)) == ([JOB], [1])
    world.sleep(1_000)
    assert taken(world, 9) == [1, 0, 2]


def test_code_of_another_bundle_is_another_shape() -> None:
    world = World()
    for name, bundle in (("a", ""), ("b", "one"), ("c", "two"), ("d", "one")):
        world.submit(name, spec=spec(bundle=bundle))
    shapes = {name: shape_of(world.state.jobs[JobId(name)]) for name in "abcd"}
    assert shapes["b"] == shapes["d"]
    assert len(set(shapes.values())) == 3


def test_a_row_counts_what_waits_of_its_head_and_of_all_behind_it() -> None:
    world = World()
    world.submit("a", 3)
    world.submit("b", 4)
    world.submit("c", 1)
    (row,) = world.state.ready.rows(world.state.jobs, world.now)
    assert (row.waiting(100), row.waiting(5), row.waiting(0)) == (8, 5, 0)
    row.advance()
    assert row.waiting(100) == 5
    assert row.head is not None
    assert row.head.job_id == "b"
    (lease,) = world.grant("a", 0)
    world.release("a", 0, lease)
    world.grant("b", 1)
    (row,) = world.state.ready.rows(world.state.jobs, world.now)
    assert row.waiting(100) == 7


def test_what_waits_for_its_time_is_not_counted() -> None:
    world = World()
    again = RetryPolicy("fixed", 1_000)
    world.submit("a", 3, spec=JobSpec(name="n", kind="k", target="t", retries=3, retry=again))
    (lease,) = world.grant("a", 0)
    world.start("a", 0, lease)
    world.fail("a", 0, lease)
    assert count_leasable(world.state.jobs["a"], world.now, 9) == 2
    world.submit("b", 3, delay_ms=1_000)
    assert count_leasable(world.state.jobs["b"], world.now, 9) == 0


def test_after_a_restart_everybody_stands_where_they_stood(dice: Random) -> None:
    world = World()
    own = JobSpec(name="n", kind="k", target="t", max_parallel=1)
    specs = [spec(), spec(target="u"), spec(priority=1), own]
    for number in range(60):
        world.submit(f"j{number}", dice.randint(1, 2), spec=dice.choice(specs))
    back = dice.sample(range(60), 30)
    leases = {number: world.grant(f"j{number}", 0)[0] for number in back}
    for number in back[:20]:
        world.release(f"j{number}", 0, leases[number])
    before, rows = line(world), sorted(map(repr, world.state.ready.queues))
    world.crash(snapshot=True)
    assert line(world) == before
    assert sorted(map(repr, world.state.ready.queues)) == rows

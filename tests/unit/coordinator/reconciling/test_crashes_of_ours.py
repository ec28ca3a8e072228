"""The coordinator falls over at every frame that it writes for a runtime: nothing is started twice,
and everything comes to the same end."""

from functools import cache

import pytest

from holdfast.testing.hosted import Hosted, function, manifest


def story(hosted: Hosted) -> Hosted:
    """A runtime comes up, is changed in what runs, how many and which, and loses a replica."""
    hosted.settle()
    hosted.apply(manifest("greeter", function("a", replicas=2), function("b")))
    hosted.pass_time(4_000)
    changed = function("a", replicas=3, env={"NEW": "1"})
    hosted.apply(manifest("greeter", changed, function("c", replicas=2)))
    hosted.pass_time(6_000)
    victim = hosted.running("greeter--c")[0]
    hosted.host_of(victim).end(victim)
    hosted.pass_time(8_000)
    return hosted


@cache
def frames() -> int:
    return story(Hosted()).service.frames


def told_end(hosted: Hosted) -> None:
    state = hosted.service.coordinator.state
    assert hosted.phase() == "available"
    running = {name: len(hosted.running(f"greeter--{name}")) for name in "abc"}
    assert running == {"a": 3, "b": 0, "c": 2}
    assert sorted(name for _, name in state.resources) == ["greeter", "greeter--a", "greeter--c"]
    living = [job.spec.name for job in state.jobs.values() if not job.sealed]
    assert sorted(living) == ["greeter--a", "greeter--c"]
    assert all(count == 1 for host in hosted.hosts for count in host.begun.values())
    hosted.delete()
    hosted.pass_time(5_000)
    assert hosted.running() == []
    assert state.resources == {}
    hosted.service.check()
    assert hosted.service.troubles == []


def test_without_a_crash_the_story_ends_well() -> None:
    told_end(story(Hosted()))


@pytest.mark.parametrize("survives", [False, True])
@pytest.mark.parametrize("share", [0.2, 0.6])
def test_a_crash_on_the_way_starts_nothing_twice(share: float, survives: bool) -> None:
    told_end(story(Hosted(crash_at=int(frames() * share), frame_survives=survives)))


@pytest.mark.slow
@pytest.mark.parametrize("survives", [False, True])
def test_a_crash_at_every_frame_starts_nothing_twice(survives: bool) -> None:
    for crash_at in range(1, frames() + 1):
        hosted = story(Hosted(crash_at=crash_at, frame_survives=survives))
        assert hosted.service.frames >= crash_at
        told_end(hosted)

"""Dependencies, gangs, preemption and schedules survive a crash of the coordinator at every frame,
with workers that go on and a planner that knows nothing of before."""

from typing import Any

import pytest

from holdfast.coordinator.schedules import backfilling, resuming, running
from holdfast.core import commands_schedules as s
from holdfast.core.ids import Instant
from holdfast.core.placing import After
from holdfast.testing.placed_judge import Judge, Site
from holdfast.testing.scheduled_judge import CLOSING, ScheduledJudge
from holdfast.testing.station import Station
from holdfast.testing.yard import Hand, Yard
from holdfast.wire.exchange import Capacity

MINUTE = 60_000
HANDS = (Hand(slots=2), Hand(slots=1))

STORY: tuple[tuple[str, int, int, dict[str, Any]], ...] = (
    # When it is first asked for, its name, how many tasks, and what they want.
    (0, "low", 3, {}),
    (0, "bad", 1, {"target": "fails", "retries": 0}),
    (1, "urgent", 1, {"priority": 9, "preempts": True, "cpus_milli": 2_000}),
    (1, "after", 2, {"after": ("low", "success")}),
    (2, "gang", 3, {"gang": True, "priority": 1}),
    (2, "alarm", 1, {"after": ("bad", "failure")}),
    (3, "never", 1, {"after": ("bad", "success")}),
    (3, "last", 1, {"after": ("gang", "finish")}),
)
ENDS = {
    **dict.fromkeys(("low", "urgent", "after", "gang", "alarm", "last"), "SUCCEEDED"),
    "bad": "FAILED",
    "never": "FAILED",
}


def told(crash_at: int, *, frame_survives: bool) -> Yard:
    """The story, with whatever was not acknowledged asked for again."""
    yard = Yard(HANDS, takes_ms=2_000, crash_at=crash_at, frame_survives=frame_survives)
    for step in range(20):
        for first, name, count, wants in STORY:
            if step >= first and yard.named(name) is None:
                wants = dict(wants)
                ties: dict[str, Any] = {"key": name}
                if "after" in wants:
                    other, condition = wants.pop("after")
                    known = yard.named(other)
                    if known is None:
                        continue
                    ties["after"] = (After(known, condition=condition),)
                yard.submit(count, ties=ties, name=name, **wants)
        yard.run_for(1_500)
    return yard


def judged(yard: Yard) -> Judge:
    sites = {
        str(member.name): Site(member.capacity, dict(member.attributes)) for member in yard.members
    }
    judge = Judge(sites)
    yard.service.settle()
    for record in yard.service.records():
        judge.feed(record)
    return judge


def ends(yard: Yard) -> dict[str, str]:
    return {job.spec.name: yard.state_of(job_id).value for job_id, job in yard.state.jobs.items()}


def test_the_story_shows_what_it_is_there_to_show() -> None:
    yard = told(0, frame_survives=False)
    judge = judged(yard)
    assert ends(yard) == ENDS
    assert judge.troubles == []
    assert judge.seen["preempted"] + len(judge.evicted) > 0
    assert judge.seen["gang granted"] > 0
    assert judge.seen["JobUnblocked"] == 3
    assert judge.seen["dependency_failed"] == 1


@pytest.mark.parametrize("frame_survives", [False, True], ids=["lost", "survived"])
@pytest.mark.parametrize("part", range(4))
def test_a_crash_at_every_frame_leaves_every_end_as_it_was(
    part: int, frame_survives: bool
) -> None:
    crash_at = 1 + part
    while True:
        yard = told(crash_at, frame_survives=frame_survives)
        judge = judged(yard)
        assert judge.troubles == [], crash_at
        assert ends(yard) == ENDS, crash_at
        if not yard.crashes:
            break
        crash_at += 4
    assert crash_at > 20


# --- schedules ----------------------------------------------------------------------------------


def people(station: Station) -> None:
    """What people do to a schedule in an hour, each asked for again where it was lost."""
    station.run(25 * MINUTE)
    station.do(s.PauseSchedule(name="s", reason="inventory"))
    if not station.schedule.paused:
        station.do(s.PauseSchedule(name="s", reason="inventory"))
    station.run(20 * MINUTE)
    for _ in range(2):
        state, wall = station.service.coordinator.state, station.clock.wall()
        station.do(backfilling(state, wall, "s", Instant(wall - 18 * MINUTE), wall))
    for _ in range(2):
        state = station.service.coordinator.state
        station.do(resuming(state, station.clock.wall(), "s"))
    station.run(15 * MINUTE)
    station.do(running(station.clock.wall(), "s"))
    station.run(30 * MINUTE)
    for _ in range(2):
        station.do(s.PauseSchedule(name="s", reason=CLOSING))
    station.run(2 * 60 * MINUTE)


@pytest.mark.parametrize(
    "timing",
    [pytest.param({"cron": "*/5 * * * *"}, marks=pytest.mark.slow), {"every_ms": 7 * MINUTE}],
    ids=str,
)
@pytest.mark.parametrize(
    "overlap",
    ["allow", *(pytest.param(name, marks=pytest.mark.slow) for name in ("skip", "replace"))],
)
@pytest.mark.parametrize(
    "is_torn", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["lost", "survived"]
)
def test_what_people_do_to_a_schedule_survives_a_crash_at_every_frame(
    timing: dict[str, Any], overlap: str, is_torn: bool
) -> None:
    frames, seen = 0, 0
    while True:
        station = Station(1_800_000_000_000, takes_ms=8 * MINUTE, frames_left=frames)
        station.is_torn = is_torn
        for _ in range(2):
            if "s" not in station.service.coordinator.state.schedules:
                station.set(**timing, overlap=overlap, missed="all")
        people(station)
        sites = {"w": Site(Capacity(4, 4_000, 1 << 30, 0), {})}
        judge = ScheduledJudge(sites, [(0, 0)])
        for record in station.service.records():
            judge.feed(record)
        assert judge.troubles == [], frames
        assert station.schedule.paused
        assert judge.seen["fired backfill"] == {"cron": 4, "every_ms": 3}[next(iter(timing))]
        seen += judge.seen["fired by_hand"]
        unfinished = set(station.jobs()) - {"SUCCEEDED", "KILLED"}
        assert not unfinished, frames
        if not station.crashes:
            break
        frames += 1
    assert frames > 12
    assert seen >= frames - 1, "a run by hand is lost at most where nobody was told of it"

"""Schedules through the real coordinator and a real worker's logic, in virtual time."""

from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from holdfast.coordinator.clockwork import LATE_MS, MADE_UP_MOST, WORK_A_TURN
from holdfast.coordinator.schedules import backfilling, coming, resuming, running
from holdfast.coordinator.views import rfc3339
from holdfast.core import commands_schedules as s
from holdfast.core import events as e
from holdfast.core.decision import Accepted
from holdfast.core.ids import Instant, JobId
from holdfast.core.job import JobState, job_state
from holdfast.core.schedule import Timing
from holdfast.scheduler.calendar import instants
from holdfast.testing.station import Station

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def wall(text: str) -> Instant:
    return Instant(int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000))


NOON = wall("2026-03-27T12:00")


def a_station(start: int = NOON, **rest: int) -> Station:
    return Station(start, **rest)


def test_an_interval_runs_on_time_again_and_again() -> None:
    station = a_station()
    station.set(every_ms=10 * MINUTE)
    station.run(HOUR + MINUTE)
    assert station.fired() == [f"2026-03-27T12:{minute}" for minute in (10, 20, 30, 40, 50)] + [
        "2026-03-27T13:00"
    ]
    assert station.jobs() == ["SUCCEEDED"] * 6
    assert station.payloads()[0] == b"2026-03-27T12:10:00.000Z"
    assert station.skipped() == []


@pytest.mark.parametrize(
    ("zone", "start", "expected"),
    [
        # 02:30 does not exist on 29 March in Berlin: it runs at 03:00 summer time, 01:00 UTC.
        ("Europe/Berlin", "2026-03-27T12:00",
         ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]),
        # 02:30 comes twice on 25 October in Berlin: the first, 00:30 UTC, is the one.
        ("Europe/Berlin", "2026-10-23T12:00",
         ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"]),
        ("America/New_York", "2026-03-06T18:00",
         ["2026-03-07T07:30", "2026-03-08T07:00", "2026-03-09T06:30"]),
        ("America/New_York", "2026-10-30T18:00",
         ["2026-10-31T06:30", "2026-11-01T07:30", "2026-11-02T07:30"]),
    ],
)  # fmt: skip
def test_a_time_of_day_runs_once_a_day_whatever_the_clocks_do(
    zone: str, start: str, expected: list[str]
) -> None:
    station = a_station(wall(start))
    station.set("30 2 * * *", zone=zone)
    station.run(3 * DAY)
    assert station.fired() == expected
    assert station.jobs() == ["SUCCEEDED"] * 3


def test_a_time_that_comes_twice_in_new_york_runs_the_first_time() -> None:
    station = a_station(wall("2026-10-31T18:00"))
    station.set("30 1 * * *", zone="America/New_York")
    station.run(DAY)
    assert station.fired() == ["2026-11-01T05:30"]


def test_every_hour_goes_by_the_passing_of_time() -> None:
    station = a_station(wall("2026-10-24T23:15"))
    station.set("0 * * * *", zone="Europe/Berlin")
    station.run(4 * HOUR)
    assert station.fired() == [f"2026-10-25T0{hour}:00" for hour in range(4)]


# --- missed -------------------------------------------------------------------------------------


def after_an_outage(missed: str, away_ms: int = 5 * HOUR + 30 * MINUTE) -> Station:
    station = a_station()
    station.set("0 * * * *", missed=missed, overlap="allow")
    station.run(HOUR)
    assert station.fired() == ["2026-03-27T13:00"]
    station.away(away_ms)
    return station


def test_missed_skip_makes_up_for_nothing_and_says_how_much_that_is() -> None:
    station = after_an_outage("skip")
    assert station.fired() == ["2026-03-27T13:00"]
    assert station.skipped() == [("2026-03-27T14:00", 5, "missed")]
    station.run(HOUR)
    assert station.fired()[1:] == ["2026-03-27T19:00"]


def test_missed_one_makes_up_for_all_with_the_latest() -> None:
    station = after_an_outage("one")
    assert station.fired()[1:] == ["2026-03-27T18:00"]
    assert station.skipped() == [("2026-03-27T14:00", 4, "missed")]
    assert station.schedule.skipped == 4
    station.run(HOUR)
    assert station.fired()[2:] == ["2026-03-27T19:00"]


def test_missed_all_makes_up_for_each() -> None:
    station = after_an_outage("all")
    assert station.fired()[1:] == [f"2026-03-27T{hour}:00" for hour in range(14, 19)]
    assert station.skipped() == []
    causes = [event.cause for event in station.events() if isinstance(event, e.ScheduleFired)]
    assert causes == ["due"] + ["made_up"] * 5


def test_missed_all_is_bounded_and_the_rest_is_recorded_as_skipped() -> None:
    station = a_station(takes_ms=0)
    station.set("* * * * *", missed="all", overlap="allow")
    station.away(3 * DAY)
    fired = station.fired()
    assert len(fired) == MADE_UP_MOST
    assert fired[-1] == "2026-03-30T12:00"
    assert station.skipped() == [("2026-03-27T12:01", 3 * 24 * 60 - MADE_UP_MOST, "missed")]
    assert station.service.troubles == []


@pytest.mark.parametrize("timing", [{"cron": "* * * * *"}, {"every_ms": MINUTE}], ids=str)
@pytest.mark.parametrize("missed", ["skip", "one"])
def test_an_outage_of_a_month_is_gone_through_in_parts(missed: str, timing: dict[str, Any]) -> None:
    station = a_station()
    station.set(**timing, missed=missed)
    station.away(30 * DAY + 30_000)
    minutes = 30 * 24 * 60
    assert station.fired() == ["2026-04-26T12:00"]
    assert station.skipped() == [("2026-03-27T12:01", minutes - 1, "missed")]
    assert station.schedule.next_wall == NOON + 30 * DAY + MINUTE


def test_an_interval_of_a_second_after_ten_years_is_made_up_for_at_once() -> None:
    station = a_station(takes_ms=0)
    station.set(every_ms=1_000, missed="all", overlap="allow")
    station.away(3_650 * DAY)
    assert len(station.fired()) == MADE_UP_MOST
    assert station.skipped() == [
        ("2026-03-27T12:00", 3_650 * DAY // 1_000 - MADE_UP_MOST, "missed")
    ]
    assert station.service.troubles == []


def test_many_that_are_due_at_once_leave_room_for_others_between() -> None:
    station = a_station(takes_ms=0)
    station.set("0 * * * *")
    definition = station.schedule.definition
    count = 3 * WORK_A_TURN
    for number in range(count):
        command = s.SetSchedule(
            name=f"s{number}", definition=definition, next_wall=station.schedule.next_wall
        )
        station.service.do(command)
    station.settle()
    station.clock.advance(HOUR)
    station.service.turn()
    at_once = len(station.service.coordinator.state.jobs)
    assert 0 < at_once <= WORK_A_TURN
    assert station.service.next_due() == station.clock.now()
    station.service.synced()
    station.settle()
    assert len(station.fired()) == count + 1
    assert station.service.troubles == []


@pytest.mark.parametrize("missed", ["skip", "one", "all"])
def test_a_moment_of_absence_is_no_outage(missed: str) -> None:
    station = a_station()
    station.set("0 * * * *", missed=missed)
    station.run(HOUR - 1_000)
    station.away(LATE_MS)
    assert station.fired() == ["2026-03-27T13:00"]
    assert station.skipped() == []


def test_missed_skip_leaves_out_what_is_late_by_more_than_a_minute() -> None:
    station = a_station()
    station.set("0 * * * *", missed="skip")
    station.run(HOUR - 1_000)
    station.away(LATE_MS + 1_000)
    assert station.fired() == []
    assert station.skipped() == [("2026-03-27T13:00", 1, "missed")]


# --- overlap ------------------------------------------------------------------------------------


def with_slow_runs(overlap: str) -> Station:
    station = a_station(takes_ms=25 * MINUTE)
    station.set(every_ms=10 * MINUTE, overlap=overlap)
    station.run(HOUR)
    return station


def test_overlap_allow_lets_runs_go_on_side_by_side() -> None:
    station = with_slow_runs("allow")
    assert len(station.fired()) == 6
    assert station.executor.most_at_once == 3


def test_overlap_skip_waits_for_the_run_before() -> None:
    station = with_slow_runs("skip")
    assert station.fired() == ["2026-03-27T12:10", "2026-03-27T12:40"]
    assert [(at[-5:], why) for at, _, why in station.skipped()] == [
        ("12:20", "overlap"), ("12:30", "overlap"), ("12:50", "overlap"), ("13:00", "overlap")
    ]  # fmt: skip
    assert station.executor.most_at_once == 1


def test_overlap_replace_stops_the_run_before() -> None:
    station = with_slow_runs("replace")
    assert len(station.fired()) == 6
    states = station.jobs()
    assert states[:5] == ["KILLED"] * 5
    assert states[5] == "RUNNING"
    jobs = station.service.coordinator.state.jobs
    assert [jobs[JobId(str(n))].cause for n in range(1, 6)] == ["replaced"] * 5
    assert job_state(jobs[JobId("6")]) is JobState.RUNNING


# --- people -------------------------------------------------------------------------------------


def test_a_pause_lasts_until_it_is_resumed_and_nothing_is_made_up_for() -> None:
    station = a_station()
    station.set("*/10 * * * *", missed="all")
    station.run(15 * MINUTE)
    station.do(s.PauseSchedule(name="s"))
    station.run(HOUR)
    assert not station.service.coordinator.refusals
    state = station.service.coordinator.state
    assert coming(station.schedule, station.clock.wall(), 1) == [wall("2026-03-27T13:20")]
    station.do(resuming(state, station.clock.wall(), "s"))
    station.run(10 * MINUTE)
    assert station.fired() == ["2026-03-27T12:10", "2026-03-27T13:20"]


def test_a_run_by_hand_is_now_and_the_clock_goes_on() -> None:
    station = a_station()
    station.set("0 * * * *")
    station.run(5 * MINUTE)
    station.do(running(station.clock.wall(), "s"))
    station.run(HOUR)
    assert station.fired() == ["2026-03-27T12:05", "2026-03-27T13:00"]


def test_a_backfill_runs_the_past_in_local_time() -> None:
    station = a_station(wall("2026-04-02T12:00"))
    station.set("30 2 * * *", zone="Europe/Berlin")
    state, now = station.service.coordinator.state, station.clock.wall()
    first, last = wall("2026-03-28T00:00"), wall("2026-03-31T00:00")
    station.do(backfilling(state, now, "s", first, last))
    station.run(MINUTE)
    assert station.fired() == ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]
    assert station.jobs() == ["SUCCEEDED"] * 3
    assert station.payloads() == [
        b"2026-03-28T01:30:00.000Z", b"2026-03-29T01:00:00.000Z", b"2026-03-30T00:30:00.000Z"
    ]  # fmt: skip


def test_a_backfill_of_an_interval_counts_from_its_instants() -> None:
    station = a_station()
    station.set(every_ms=HOUR, start=NOON + 30 * MINUTE)
    state, now = station.service.coordinator.state, station.clock.wall()
    station.do(backfilling(state, now, "s", Instant(now - 2 * HOUR), now))
    assert station.fired() == ["2026-03-27T10:30", "2026-03-27T11:30"]


# --- the wall clock -----------------------------------------------------------------------------


def test_a_wall_clock_that_is_set_back_fires_no_instant_twice() -> None:
    station = a_station()
    station.set("0 * * * *")
    station.run(2 * HOUR)
    station.clock.move_wall(-90 * MINUTE)
    station.run(2 * HOUR)
    assert station.fired() == [f"2026-03-27T{hour}:00" for hour in (13, 14)]
    station.run(HOUR)
    assert station.fired() == [f"2026-03-27T{hour}:00" for hour in (13, 14, 15)]


def test_after_a_wall_clock_was_set_back_a_resume_waits_for_what_was_not_yet() -> None:
    station = a_station()
    station.set("0 * * * *")
    station.run(2 * HOUR)
    station.clock.move_wall(-90 * MINUTE)
    station.do(s.PauseSchedule(name="s"))
    state = station.service.coordinator.state
    assert isinstance(station.do(resuming(state, station.clock.wall(), "s")), Accepted)
    assert station.schedule.next_wall == wall("2026-03-27T15:00")


def test_a_wall_clock_that_is_set_ahead_is_an_outage() -> None:
    station = a_station()
    station.set("0 * * * *", missed="one")
    station.run(MINUTE)
    station.clock.move_wall(3 * HOUR)
    station.run(MINUTE)
    assert station.fired() == ["2026-03-27T15:00"]
    assert station.skipped() == [("2026-03-27T13:00", 2, "missed")]


# --- crashes ------------------------------------------------------------------------------------


def expected_runs() -> list[str]:
    every = instants(Timing(cron="*/10 * * * *"), NOON, NOON)
    return [rfc3339(instant)[:16] for instant in islice(every, 12)]


@pytest.mark.parametrize("overlap", ["allow", "replace"])
@pytest.mark.parametrize("is_torn", [False, True], ids=["lost", "survived"])
def test_a_crash_at_every_record_neither_loses_a_run_nor_doubles_it(
    overlap: str, is_torn: bool
) -> None:
    frames = 0
    while True:
        station = a_station(takes_ms=15 * MINUTE, frames_left=frames)
        station.is_torn = is_torn
        station.set("*/10 * * * *", missed="all", overlap=overlap)
        if "s" not in station.service.coordinator.state.schedules:
            # Nobody was told that it is set: whoever asked asks again.
            station.set("*/10 * * * *", missed="all", overlap=overlap)
        station.run(2 * HOUR)
        assert station.fired() == expected_runs(), frames
        assert len(station.service.coordinator.state.jobs) == 12
        if not station.crashes:
            break
        frames += 1
    assert frames > 12


@pytest.mark.parametrize("missed", ["skip", "one", "all"])
def test_a_crash_while_catching_up_ends_where_it_would_have(missed: str) -> None:
    expected = {"skip": 0, "one": 1, "all": 40}[missed]
    frames = 0
    while True:
        station = a_station(takes_ms=0)
        station.set("*/10 * * * *", missed=missed, overlap="allow")
        station.frames_left = frames
        station.clock.advance(400 * MINUTE + 2 * LATE_MS)
        station.settle()
        fired = station.fired()
        assert len(fired) == len(set(fired)) == expected, frames
        assert sum(count for _, count, _ in station.skipped()) == 40 - expected
        if not station.crashes:
            break
        frames += 1
    assert frames >= 1

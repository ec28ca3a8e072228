"""The calendar agrees with somebody who looks at the clock on the wall minute after minute."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.ids import Instant
from holdfast.core.schedule import Timing
from holdfast.scheduler.calendar import instants

MINUTE = timedelta(minutes=1)
SPAN_DAYS = 2

# A moment some hours before the clocks are changed, forward and back.
CHANGES = {
    "Europe/Berlin": ("2026-03-28T12:00", "2026-10-24T12:00"),
    "America/New_York": ("2026-03-07T12:00", "2026-10-31T12:00"),
    "Australia/Lord_Howe": ("2026-10-03T12:00", "2026-04-04T06:00"),
    "Africa/Cairo": ("2026-04-23T12:00", "2026-10-29T06:00"),
    "America/Havana": ("2026-03-07T12:00", "2026-10-31T12:00"),
    "Asia/Kathmandu": ("2026-03-28T12:00", "2026-10-24T12:00"),
    "UTC": ("2026-03-28T12:00", "2026-10-24T12:00"),
}


def parsed(field: str, low: int, high: int) -> set[int]:
    """The numbers a field names, read independently: lists, ranges, stars and steps."""
    found: set[int] = set()
    for part in field.split(","):
        term, _, step = part.partition("/")
        if term == "*":
            first, last = low, high
        else:
            start, _, end = term.partition("-")
            first = int(start)
            last = int(end) if end else (high if step else first)
        found.update(range(first, last + 1, int(step or 1)))
    return found


def walk(cron: str, zone: ZoneInfo, start: datetime, days: int) -> Iterator[datetime]:
    """Every minute of the span is looked at; what the wall shows decides."""
    fields = cron.split()
    minutes, hours = parsed(fields[0], 0, 59), parsed(fields[1], 0, 23)
    weekdays = {day % 7 for day in parsed(fields[4], 0, 7)}
    by_day = not fields[0].startswith("*") and not fields[1].startswith("*")

    def names(local: datetime) -> bool:
        weekday = (local.weekday() + 1) % 7
        return local.minute in minutes and local.hour in hours and weekday in weekdays

    before = start.astimezone(zone).replace(tzinfo=None)
    owed = False
    moment = start
    while moment < start + timedelta(days=days):
        moment += MINUTE
        local = moment.astimezone(zone)
        wall = local.replace(tzinfo=None, fold=0)
        if not by_day:
            if names(local):
                yield moment
        else:
            # What the clock jumped over is owed at the first minute after the jump.
            skipped = before + MINUTE
            while skipped < wall:
                owed = owed or names(skipped)
                skipped += MINUTE
            if owed or (names(local) and local.fold == 0):
                yield moment
            owed = False
        before = max(before, wall)


def a_field(draw: st.DrawFn, low: int, high: int, *, star: bool) -> str:
    if star and draw(st.booleans()):
        step = draw(st.sampled_from(["", "/2", "/15", "/20", "/7"]))
        return f"*{step}"
    numbers = draw(st.lists(st.integers(low, high), min_size=1, max_size=3, unique=True))
    return ",".join(map(str, sorted(numbers)))


@st.composite
def expressions(draw: st.DrawFn) -> str:
    minute = a_field(draw, 0, 59, star=True)
    hour = a_field(draw, 0, 4, star=True)
    weekday = draw(st.sampled_from(["*", "*", "0", "6,0", "1-5", "7"]))
    return f"{minute} {hour} * * {weekday}"


def compare(cron: str, zone: str, start: str, offset: int) -> None:
    begin = datetime.fromisoformat(start).replace(tzinfo=UTC) + timedelta(minutes=offset)
    expected = [int(m.timestamp() * 1_000) for m in walk(cron, ZoneInfo(zone), begin, SPAN_DAYS)]
    after = Instant(int(begin.timestamp() * 1_000))
    found = islice(instants(Timing(cron=cron, zone=zone), after, after), len(expected) + 1)
    end = after + SPAN_DAYS * 86_400_000
    assert [instant for instant in found if instant <= end] == expected


@settings(max_examples=40)
@given(
    cron=expressions(),
    zone=st.sampled_from(sorted(CHANGES)),
    change=st.integers(0, 1),
    offset=st.integers(0, 1_200),
)
def test_the_instants_are_those_of_a_walk_minute_by_minute(
    cron: str, zone: str, change: int, offset: int
) -> None:
    compare(cron, zone, CHANGES[zone][change], offset)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("change", [0, 1])
@pytest.mark.parametrize(
    "cron",
    ["30 2 * * *", "30 1 * * *", "0,30 1,2,3 * * *", "*/20 * * * *", "0 * * * *", "* 2 * * *"],
)
def test_both_changes_of_the_clocks_are_met_from_every_hour(
    cron: str, zone: str, change: int
) -> None:
    for offset in range(0, 1_200, 299):
        compare(cron, zone, CHANGES[zone][change], offset)

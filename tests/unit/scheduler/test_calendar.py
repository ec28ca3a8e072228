"""When a schedule comes: expressions, zones, intervals, and what is none of them."""

from datetime import UTC, datetime
from itertools import islice

import pytest

from holdfast.core.ids import Instant
from holdfast.core.schedule import Timing
from holdfast.scheduler.calendar import Mistimed, check_timing, first_instant, instants


def wall(text: str) -> Instant:
    return Instant(int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1_000))


def shown(instant: int) -> str:
    return datetime.fromtimestamp(instant / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def following(timing: Timing, after: str, count: int = 3) -> list[str]:
    moment = wall(after)
    return [shown(instant) for instant in islice(instants(timing, moment, moment), count)]


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-29T00:00",
         ["2026-03-29T01:00", "2026-03-30T00:30"]),
        ("0 2,3 * * *", "Europe/Berlin", "2026-03-29T00:00",
         ["2026-03-29T01:00", "2026-03-30T00:00"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00",
         ["2026-10-25T00:30", "2026-10-26T01:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:45",
         ["2026-10-26T01:30", "2026-10-27T01:30"]),
        # The second 02:10 of that night: 02:30 has been.
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10",
         ["2026-10-26T01:30", "2026-10-27T01:30"]),
        ("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:15",
         ["2026-10-25T00:30", "2026-10-25T01:00"]),
        ("30 2 * * *", "America/New_York", "2026-03-08T06:00",
         ["2026-03-08T07:00", "2026-03-09T06:30"]),
        ("30 1 * * *", "America/New_York", "2026-11-01T04:00",
         ["2026-11-01T05:30", "2026-11-02T06:30"]),
        ("0 */2 * * *", "Australia/Lord_Howe", "2026-04-04T14:00",
         ["2026-04-04T15:30", "2026-04-04T17:30"]),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("0 12 L * *", "UTC", "2026-01-31T12:00", ["2026-02-28T12:00", "2026-03-31T12:00"]),
        ("@daily", "Asia/Kathmandu", "2026-01-01T00:00", ["2026-01-01T18:15", "2026-01-02T18:15"]),
    ],
)  # fmt: skip
def test_an_expression_is_read_in_its_zone(
    cron: str, zone: str, after: str, expected: list[str]
) -> None:
    found = following(Timing(cron=cron, zone=zone), after, len(expected))
    assert [text[:16] for text in found] == expected


def test_the_instants_of_an_interval_count_from_one_of_them() -> None:
    timing = Timing(every_ms=7_000)
    base = wall("2026-01-01T00:00:03")
    for offset in (-20_000, -7_000, -1, 0, 1, 6_999, 7_000, 90_000):
        after = Instant(base + offset)
        first, second = islice(instants(timing, after, base), 2)
        assert after < first <= after + 7_000
        assert (first - base) % 7_000 == 0
        assert second == first + 7_000


def test_an_instant_is_after_the_moment_and_never_at_it() -> None:
    timing = Timing(cron="0 12 * * *")
    noon = wall("2026-01-01T12:00")
    assert first_instant(timing, Instant(noon - 1), noon) == noon
    assert shown(first_instant(timing, noon, noon)) == "2026-01-02T12:00:00"


@pytest.mark.parametrize(
    "timing",
    [
        Timing(),
        Timing(cron="* * * * *", every_ms=1_000),
        Timing(every_ms=999),
        Timing(every_ms=-1_000),
        Timing(cron="* * * *"),
        Timing(cron="* * * * * *"),
        Timing(cron="61 * * * *"),
        Timing(cron="* * * * MOND"),
        Timing(cron="*/0 * * * *"),
        Timing(cron="L/2 * * * *"),
        Timing(cron="9" * 6_000 + " * * * *"),
        Timing(cron="@noon"),
        Timing(cron="0 0 30 2 *"),
        Timing(cron="0 0 31 4,6 *"),
        Timing(cron="0 0 * * *", zone="Mars/Olympus"),
        Timing(cron="0 0 * * *", zone=""),
        Timing(cron="0 0 * * *", zone="../../etc/passwd"),
        Timing(cron="0 0 * * *", zone="Europe"),
    ],
    ids=lambda timing: f"{timing.cron[:12]}|{timing.every_ms}|{timing.zone[:12]}",
)  # fmt: skip
def test_what_is_no_timing_is_refused_in_words(timing: Timing) -> None:
    with pytest.raises(Mistimed) as told:
        check_timing(timing)
    assert 10 < len(str(told.value)) < 300


def test_an_expression_that_never_comes_is_told_from_one_that_is_rare() -> None:
    now = wall("2026-01-01T00:00")
    assert shown(first_instant(Timing(cron="0 0 29 2 *"), now, now)) == "2028-02-29T00:00:00"
    with pytest.raises(Mistimed, match="never comes"):
        first_instant(Timing(cron="0 0 31 2 *"), now, now)

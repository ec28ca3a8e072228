"""What `--at` understands."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from holdfast.cli.moments import parse_moment
from holdfast.coordinator.inspect import Moment

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 3, 1, 14, 30, 15, 250_000, tzinfo=ZONE)


def wall(*fields: int) -> Moment:
    return Moment(wall=int(datetime(*fields, tzinfo=UTC).timestamp() * 1_000))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("412", Moment(position=412)),
        ("0", Moment(position=0)),
        (" 7 ", Moment(position=7)),
        ("2026-03-01T12:00:00Z", wall(2026, 3, 1, 12)),
        ("2026-03-01T12:00:00+02:00", wall(2026, 3, 1, 10)),
        ("14:05", wall(2026, 3, 1, 12, 5)),
        ("9:05:07", wall(2026, 3, 1, 7, 5, 7)),
        ("10m", wall(2026, 3, 1, 12, 20, 15, 250_000)),
        ("1h30m ago", wall(2026, 3, 1, 11, 0, 15, 250_000)),
        ("-90s", wall(2026, 3, 1, 12, 28, 45, 250_000)),
    ],
)
def test_a_moment_is_a_position_or_a_time_as_people_write_it(text: str, moment: Moment) -> None:
    assert parse_moment(text, NOW) == moment


def test_parts_of_a_second_count() -> None:
    assert parse_moment("14:05:07.5", NOW) == wall(2026, 3, 1, 12, 5, 7, 500_000)


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "14:5x", "-3", "٣", "10 parsecs", "4.5"),
        *("0001-01-01", "0001-01-01T00:00:00+09:00", "9" * 12 + "d"),
    ],
)
def test_anything_else_is_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="write a position"):
        parse_moment(text, NOW)


@pytest.mark.parametrize("text", ["25:00", "12:60", "9:05:61"])
def test_a_time_that_no_clock_shows_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no time of day"):
        parse_moment(text, NOW)


@pytest.mark.parametrize("text", ["14:31", "2026-03-01T12:30:16Z"])
def test_what_lies_ahead_cannot_be_looked_at(text: str) -> None:
    with pytest.raises(ValueError, match="lies ahead"):
        parse_moment(text, NOW)

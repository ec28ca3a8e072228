"""Durations, sizes and instants as people write them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from holdfast.wire.amounts import duration_ms, size_bytes, text, wall_ms, whole


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        (None, 0),
        (0, 0),
        (1.5, 1_500),
        ("90s", 90_000),
        ("250ms", 250),
        ("1h30m", 5_400_000),
        (" 2 h ", 7_200_000),
        ("1d", 86_400_000),
        ("0.5m", 30_000),
        (timedelta(minutes=2), 120_000),
    ],
)
def test_a_duration_means_what_it_says(written: float | str | timedelta | None, ms: int) -> None:
    assert duration_ms(written, "timeout") == ms


@pytest.mark.parametrize("written", ["", "5", "m", "5 parsecs", "1h 30", "-5m", -1, "1h,30m"])
def test_a_duration_that_cannot_be_read_is_refused_by_name(written: float | str) -> None:
    with pytest.raises(ValueError, match="timeout="):
        duration_ms(written, "timeout")


@pytest.mark.parametrize(
    ("written", "size"),
    [(None, 0), (12, 12), ("512Mi", 512 << 20), ("4G", 4 * 10**9), ("1.5ki", 1536), ("7", 7)],
)
def test_a_size_means_what_it_says(written: int | str | None, size: int) -> None:
    assert size_bytes(written, "memory") == size


@pytest.mark.parametrize("written", ["", "much", "-1", "5 bananas", -1])
def test_a_size_that_cannot_be_read_is_refused_by_name(written: int | str) -> None:
    with pytest.raises(ValueError, match="memory="):
        size_bytes(written, "memory")


def test_an_instant_is_the_same_in_every_zone_and_none_is_guessed() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    east = datetime(2026, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    assert wall_ms(noon, "deadline") == wall_ms(east, "deadline") == 1_767_268_800_000
    with pytest.raises(ValueError, match="has no time zone"):
        wall_ms(datetime(2026, 1, 1, 12), "deadline")  # noqa: DTZ001 - the mistake itself


@pytest.mark.parametrize("value", [1.0, True, "1", None])
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="count="):
        whole(value, "count")  # type: ignore[arg-type]


def test_text_is_text_or_nothing() -> None:
    assert (text(None, "key"), text("k", "key")) == ("", "k")
    with pytest.raises(TypeError, match="key=b'k' must be text"):
        text(b"k", "key")  # type: ignore[arg-type]

"""What answers to a probe come to: time is told, and nobody is asked."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.wire.service import Probe
from holdfast.worker.health import EAGER_MOST_MS, Tally

PROBE = Probe(kind="tcp", period_ms=1_000, failures=3, successes=2)


def fed(tally: Tally, answers: Iterable[bool]) -> list[bool | None]:
    """What each answer made of it, asked whenever it is due and answered at once."""
    found = []
    for is_content in answers:
        now_ms = tally.due_ms()
        tally.heard(is_content=is_content, asked_ms=now_ms, now_ms=now_ms)
        found.append(tally.is_well)
    return found


def test_it_takes_as_many_answers_in_a_row_as_the_probe_says() -> None:
    tally = Tally(PROBE, 0, is_eager=False)
    assert fed(tally, [True, False, True, True]) == [None, None, None, True]
    assert fed(tally, [False, False, True, False, False]) == [True] * 5
    assert fed(tally, [False]) == [False]
    assert fed(tally, [True, True]) == [False, True]


def test_a_patient_one_is_asked_once_a_period_from_one_period_on() -> None:
    tally = Tally(PROBE, 500, is_eager=False)
    assert tally.due_ms() == 1_500
    tally.heard(is_content=False, asked_ms=1_500, now_ms=1_700)
    assert tally.due_ms() == 2_500


def test_an_eager_one_is_asked_soon_and_often_until_it_is_content_once() -> None:
    tally = Tally(PROBE, 0, is_eager=True)
    asked = []
    while len(asked) < 6:
        asked.append(tally.due_ms())
        fed(tally, [False])
    assert asked == [50, 150, 350, 750, 1_550, 2_550]
    before = tally.due_ms()
    fed(tally, [True])
    assert tally.due_ms() == before + PROBE.period_ms


def test_an_eager_one_has_as_long_as_its_period_and_failures_allow() -> None:
    tally = Tally(PROBE, 0, is_eager=True)
    while tally.is_well is None:
        now_ms = tally.due_ms()
        fed(tally, [False])
    assert PROBE.failures * PROBE.period_ms <= now_ms
    assert now_ms <= PROBE.failures * PROBE.period_ms + EAGER_MOST_MS


@pytest.mark.slow
@given(
    st.integers(1, 5_000), st.integers(1, 5), st.integers(1, 5), st.booleans(),
    st.lists(st.tuples(st.booleans(), st.integers(0, 10_000)), max_size=60),
)  # fmt: skip
def test_it_is_never_asked_before_now_nor_later_than_a_period_after_the_last_time(
    period: int, failures: int, successes: int, is_eager: bool, answers: list[tuple[bool, int]]
) -> None:
    probe = Probe(kind="tcp", period_ms=period, failures=failures, successes=successes)
    tally = Tally(probe, 7, is_eager=is_eager)
    row = 0
    for is_content, took_ms in answers:
        asked_ms = tally.due_ms()
        tally.heard(is_content=is_content, asked_ms=asked_ms, now_ms=asked_ms + took_ms)
        assert asked_ms < tally.due_ms() <= asked_ms + period
        row = row + 1 if is_content else 0
        if row >= successes:
            assert tally.is_well is True

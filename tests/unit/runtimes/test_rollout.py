"""Replacing replicas: how many at once, which first, in steps, and what stops it."""

from typing import Any

import pytest

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.rollout import Bounds, Replica, Round, bounds_of, next_round
from holdfast.runtimes.spec import Rollout
from holdfast.runtimes.status import RolloutProgress
from holdfast.runtimes.written import Portion, Share, Span, read

NOW = Instant(1_000_000)
MINUTE = 60_000
ONE_EXTRA = Rollout()
ONE_AWAY = Rollout(surge=Portion(0), unavailable=Portion(1))
STEPS = Rollout(steps=(Share(10), Share(50), Share(100)), pause=Span(MINUTE))


def replicas(text: str) -> tuple[Replica, ...]:
    """`a` is ready and `a?` is not, `a!` keeps failing, `a-` was told to stop."""
    return tuple(
        Replica(
            index=index, revision=word.rstrip("?!-"), is_ready=word.rstrip("-").isalnum(),
            is_failing="!" in word, is_stopping=word.endswith("-"),
        )
        for index, word in enumerate(text.split())
    )  # fmt: skip


def a_round(
    desired: int, text: str, rollout: Rollout = ONE_EXTRA, *, wanted: str = "b",
    before: RolloutProgress | None = None, now: int = NOW,
) -> Round:  # fmt: skip
    return next_round(
        wanted=wanted, desired=desired, replicas=replicas(text), rollout=rollout,
        before=before, now=Instant(now),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("surge", "unavailable", "desired", "bounds"),
    [
        (1, 0, 4, Bounds(4, 5)),
        (0, 1, 4, Bounds(3, 4)),
        ("25%", "25%", 4, Bounds(3, 5)),
        # Extra ones are rounded upwards, missing ones down.
        ("25%", "25%", 3, Bounds(3, 4)),
        ("100%", "100%", 3, Bounds(0, 6)),
        (0, 0, 3, Bounds(3, 4)),
        (0, "25%", 3, Bounds(3, 4)),
        (3, 9, 2, Bounds(0, 5)),
        (1, 0, 0, Bounds(0, 0)),
    ],
)
def test_how_few_are_ready_and_how_many_live(
    surge: Any, unavailable: Any, desired: int, bounds: Bounds
) -> None:
    rollout = Rollout(surge=read(Portion, surge), unavailable=read(Portion, unavailable))
    assert bounds_of(rollout, desired) == bounds


@pytest.mark.parametrize(
    ("rollout", "desired", "text", "start", "stop"),
    [
        # The first of all: nothing is replaced, so nothing is careful.
        (ONE_EXTRA, 3, "", 3, ()),
        (STEPS, 3, "", 3, ()),
        # One extra comes, and only when it is ready an old one goes, the newest first.
        (ONE_EXTRA, 2, "a a", 1, ()),
        (ONE_EXTRA, 2, "a a b?", 0, ()),
        (ONE_EXTRA, 2, "a a b", 0, (1,)),
        (ONE_EXTRA, 2, "a a- b", 0, ()),
        (ONE_EXTRA, 2, "a b", 1, ()),
        (ONE_EXTRA, 2, "a b b", 0, (0,)),
        (ONE_EXTRA, 2, "b b", 0, ()),
        # One may be away: it goes first, and its place is taken when it is gone.
        (ONE_AWAY, 2, "a a", 0, (1,)),
        (ONE_AWAY, 2, "a a-", 0, ()),
        (ONE_AWAY, 2, "a", 1, ()),
        (ONE_AWAY, 2, "a b?", 0, ()),
        (ONE_AWAY, 2, "a b", 0, (0,)),
        # Unready ones go before ready ones, as soon as others do the work.
        (ONE_EXTRA, 2, "a? a b", 0, (0,)),
        (ONE_EXTRA, 2, "a? a?", 1, ()),
        (ONE_EXTRA, 2, "a? a? b?", 0, ()),
        (ONE_EXTRA, 2, "a? a? b", 0, (1,)),
        # More or fewer of the same revision.
        (ONE_EXTRA, 4, "b b", 2, ()),
        (ONE_EXTRA, 1, "b b b", 0, (2, 1)),
        (ONE_EXTRA, 1, "b b? b", 0, (1, 2)),
        (ONE_EXTRA, 0, "b b?", 0, (1, 0)),
        (ONE_EXTRA, 0, "a b", 0, (0, 1)),
        # A third revision: what the second left unready goes first.
        (ONE_EXTRA, 2, "a a c?", 0, (2,)),
    ],
)
def test_a_round_starts_and_stops_as_many_as_it_may(
    rollout: Rollout, desired: int, text: str, start: int, stop: tuple[int, ...]
) -> None:
    found = a_round(desired, text, rollout)
    assert (found.start, found.stop) == (start, stop)


def test_the_targets_say_how_many_of_each_revision_there_will_be() -> None:
    assert a_round(3, "a a a").targets == {"a": 3, "b": 1}
    assert a_round(3, "a a a b").targets == {"a": 2, "b": 1}
    assert a_round(3, "a a c b").targets == {"a": 2, "b": 1, "c": 0}


@pytest.mark.parametrize(
    ("text", "is_done"),
    [("b b", True), ("b b?", False), ("b b a-", False), ("a b b", False), ("b", False)],
)
def test_it_is_done_when_all_are_ready_and_the_old_are_gone(text: str, is_done: bool) -> None:
    assert a_round(2, text).is_done is is_done


def test_a_bad_revision_stops_the_rollout_with_the_old_ones_up() -> None:
    found = a_round(3, "a a a b!")
    assert (found.start, found.stop, found.is_done) == (0, (), False)
    assert found.progress.is_stopped
    assert found.progress.message == "1 of the new revision keep failing; 3 of the old stay up"
    # Where one may be away the bad one is it, and no other goes.
    away = a_round(3, "a a b!", ONE_AWAY)
    assert (away.start, away.stop, away.progress.is_stopped) == (0, (), True)
    # It goes back by declaring the old one again.
    assert a_round(3, "a a a b!", wanted="a").stop == (3,)


def test_a_revision_that_fails_with_nothing_to_fall_back_on_is_not_held_back() -> None:
    assert a_round(2, "b!").start == 1
    assert not a_round(2, "a? b!").progress.is_stopped


def test_fewer_are_wanted_while_a_bad_revision_stands() -> None:
    found = a_round(1, "a a a b!")
    assert found.stop == (3, 2)
    assert found.start == 0


def test_002_170_steps_replace_a_share_and_pause() -> None:
    old = "a a a a a a a a a a"
    first = a_round(10, old, STEPS)
    assert first.start == 1
    assert (first.progress.step, first.progress.steps) == (1, 3)
    # One is in, one old went: the share of the first step is reached, and the pause begins.
    reached = "a a a a a a a a a b"
    second = a_round(10, reached, STEPS, before=first.progress)
    assert (second.start, second.stop) == (0, ())
    assert second.progress.paused_until == NOW + MINUTE
    assert second.wake_after_ms == MINUTE
    assert second.progress.message == "it pauses before the next step"
    # The pause goes on from where it began.
    third = a_round(10, reached, STEPS, before=second.progress, now=NOW + MINUTE - 1)
    assert third.progress == second.progress
    fourth = a_round(10, reached, STEPS, before=third.progress, now=NOW + MINUTE)
    assert (fourth.progress.step, fourth.progress.paused_until) == (2, NEVER)
    assert fourth.start == 1


def test_a_pause_begins_again_when_what_it_waits_for_is_lost() -> None:
    paused = a_round(10, "a a a a a a a a a b", STEPS).progress
    lost = a_round(10, "a a a a a a a a a b?", STEPS, before=paused, now=NOW + 2 * MINUTE)
    assert (lost.progress.step, lost.progress.paused_until) == (1, NEVER)
    assert lost.start == 0


def test_another_revision_begins_with_the_first_step() -> None:
    far = RolloutProgress(revision="x", step=3, steps=3)
    found = a_round(10, "a a a a a a a a a a", STEPS, before=far)
    assert found.progress.step == 1


def test_steps_that_stop_short_of_all_end_with_all() -> None:
    short = Rollout(steps=(Share(50),))
    found = a_round(2, "a b", short, before=RolloutProgress(revision="b", step=2, steps=2))
    assert found.progress.steps == 2
    assert found.start == 1


def test_old_ones_that_go_by_themselves_are_made_up_for_whatever_the_step() -> None:
    assert a_round(4, "a b", STEPS).start == 2

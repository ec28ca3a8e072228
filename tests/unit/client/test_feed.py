"""What a program knows of a job, and how it is told."""

import gc
import weakref
from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.feed import UNFINISHED, FeedRef, JobFeed
from holdfast.coordinator.watch import JobNow
from holdfast.core.errors import LogFailed
from holdfast.core.ids import Index, JobId, Position
from holdfast.core.task import ASIDE, FRESH, TaskState


def a_feed(*states: int, ends: tuple[int, ...] = (), sealed: bool = True) -> JobFeed:
    feed = JobFeed(JobId("1"))
    feed.begin(JobNow(bytes(states), array("Q", ends), sealed, "", ""))
    return feed


def test_a_feed_begins_with_the_job_as_it_stands() -> None:
    feed = a_feed(
        FRESH, TaskState.SUCCEEDED, TaskState.COMMITTED, ASIDE, TaskState.QUARANTINED,
        ends=(0, 30, 20, 0, 10),
    )  # fmt: skip
    succeeded, quarantined = TaskState.SUCCEEDED, TaskState.QUARANTINED
    # A committed result is ready, whatever is still owed.
    assert list(feed.cells) == [UNFINISHED, succeeded, succeeded, UNFINISHED, quarantined]
    assert list(feed.order) == [4, 2, 1]
    assert list(feed.positions) == [0, 30, 20, 0, 10]
    assert feed.done_count == 3


def test_tasks_that_finish_are_there_in_the_order_they_did() -> None:
    feed = a_feed(FRESH, FRESH, FRESH)
    feed.finished([Index(2), Index(0)], TaskState.SUCCEEDED, Position(9))
    assert (list(feed.order), feed.done_count, feed.cells[1]) == ([2, 0], 2, UNFINISHED)
    feed.ended("SUCCEEDED", "")
    assert feed.wait_for(lambda: feed.state == "SUCCEEDED", None)


def test_a_job_that_grows_gets_room_and_a_retry_takes_back_what_was_told() -> None:
    feed = a_feed(FRESH, sealed=False)
    feed.grown(3, sealed=True)
    assert (len(feed.cells), feed.sealed) == (3, True)
    feed.finished([Index(1)], TaskState.QUARANTINED, Position(5))
    feed.ended("FAILED", "quarantined")
    feed.reopened([Index(1)])
    assert (feed.superseded, feed.done_count, feed.state, feed.reason) == ({0}, 0, "", "")
    feed.finished([Index(1)], TaskState.SUCCEEDED, Position(8))
    assert (list(feed.order), feed.superseded) == ([1, 1], {0})


def test_waiting_gives_up_in_time_and_raises_what_broke() -> None:
    feed = a_feed(FRESH)
    assert not feed.wait_for(lambda: False, 0.001)
    feed.broken(LogFailed("the disk is gone"))
    with pytest.raises(LogFailed):
        feed.wait_for(lambda: False, None)
    # What was known before stays known.
    assert feed.wait_for(lambda: True, None)


def test_whoever_asked_is_called_at_every_change_until_they_leave() -> None:
    feed = a_feed(FRESH)
    calls: list[int] = []

    def callback() -> None:
        calls.append(feed.done_count)

    feed.call_on_change(callback)
    feed.finished([Index(0)], TaskState.SUCCEEDED, Position(2))
    feed.drop_callback(callback)
    feed.ended("SUCCEEDED", "")
    assert calls == [1]
    feed.drop_callback(callback)


def test_the_coordinator_holds_a_feed_only_as_long_as_somebody_else_does() -> None:
    posted: list[object] = []
    feed = a_feed(FRESH)
    ref = FeedRef(feed, posted.append)
    ref.finished([Index(0)], TaskState.SUCCEEDED, Position(2))
    assert feed.done_count == 1
    del feed
    assert len(posted) == 1
    # News that was under way meets nobody, and that is no trouble.
    ref.ended("SUCCEEDED", "")


class Witness(array):  # type: ignore[type-arg]
    """Positions that look at the cells whenever they are written."""

    feed: JobFeed

    def __setitem__(self, place: object, value: object) -> None:
        assert set(self.feed.cells) == {UNFINISHED}
        super().__setitem__(place, value)  # type: ignore[call-overload]


@pytest.mark.parametrize("done", [range(1, 2), [1]])
def test_a_task_looks_finished_only_when_its_position_is_known(done: Sequence[Index]) -> None:
    feed = a_feed(FRESH, FRESH)
    feed.positions = witness = Witness("Q", (0, 0))
    witness.feed = feed
    feed.finished(done, TaskState.SUCCEEDED, Position(9))
    assert (feed.cells[1], witness[1]) == (TaskState.SUCCEEDED, 9)


def now(*states: int, ends: tuple[int, ...] = (), sealed: bool = True, ended: str = "") -> JobNow:
    return JobNow(bytes(states), array("Q", ends), sealed, ended, "")


def test_a_feed_that_is_begun_again_takes_what_it_missed_in_the_order_of_the_log() -> None:
    feed = a_feed(FRESH, FRESH, FRESH, sealed=False)
    feed.finished([Index(1)], TaskState.SUCCEEDED, Position(5))
    cells, positions = feed.cells, feed.positions
    done, failed = TaskState.SUCCEEDED, TaskState.QUARANTINED
    feed.begin(now(done, done, FRESH, failed, ends=(9, 5, 0, 7), ended=""))
    assert list(feed.order) == [1, 3, 0]
    assert (feed.done_count, feed.superseded, feed.sealed) == (3, set(), True)
    # Readers who began before hold on to the very same cells.
    assert (cells is feed.cells, positions is feed.positions) == (True, True)
    assert list(positions) == [9, 5, 0, 7]


def test_what_is_begun_again_as_it_was_is_no_news() -> None:
    feed = a_feed(FRESH, FRESH)
    feed.finished([Index(0)], TaskState.SUCCEEDED, Position(4))
    feed.begin(now(TaskState.SUCCEEDED, FRESH, ends=(4, 0)))
    feed.begin(now(TaskState.COMMITTED, FRESH, ends=(4,)))
    assert (list(feed.order), feed.superseded, feed.done_count) == ([0], set(), 1)


def test_a_task_that_was_sent_back_meanwhile_comes_again_or_waits_again() -> None:
    done, failed = TaskState.SUCCEEDED, TaskState.QUARANTINED
    feed = a_feed(failed, failed, failed, ends=(3, 4, 5))
    feed.ended("FAILED", "quarantined")
    feed.begin(now(done, FRESH, failed, ends=(8, 4, 5)))
    assert (list(feed.order), feed.superseded) == ([0, 1, 2, 0], {0, 1})
    assert (feed.done_count, feed.state, feed.cells[1]) == (2, "", UNFINISHED)


def test_a_feed_that_is_mended_is_waited_for_again() -> None:
    feed = a_feed(FRESH)
    feed.broken(LogFailed("away"))
    feed.mended()
    assert not feed.wait_for(lambda: False, 0.001)


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(st.sampled_from(["finish", "fail", "reopen", "grow", "lose", "begin"]),
              st.integers(0, 7)), max_size=20,
)  # fmt: skip


@given(STEPS)
def test_whatever_was_missed_every_end_is_told_once(steps: list[Step]) -> None:
    """A reader that goes along the order meets each end that stands exactly once, whenever the
    news broke off and was taken up again."""
    feed = a_feed(FRESH, sealed=False)
    states, ends = bytearray([FRESH]), array("Q", [0])
    met: list[tuple[int, int]] = []
    read = 0
    connected = True
    for position, (step, place) in enumerate([*steps, ("begin", 0)], start=1):
        index = Index(place % len(states))
        is_open = states[index] == FRESH
        if step in ("finish", "fail") and is_open:
            state = TaskState.SUCCEEDED if step == "finish" else TaskState.QUARANTINED
            states[index], ends[index] = state, position
            if connected:
                feed.finished([index], state, Position(position))
        elif step == "reopen" and states[index] == TaskState.QUARANTINED:
            states[index] = FRESH
            if connected:
                feed.reopened([index])
        elif step == "grow":
            states.append(FRESH)
            ends.append(0)
            if connected:
                feed.grown(len(states), sealed=False)
        elif step == "lose":
            connected = False
        elif step == "begin":
            connected = True
            feed.begin(now(*states, ends=tuple(ends), sealed=False))
        while read < len(feed.order):
            if read not in feed.superseded:
                met.append((feed.order[read], feed.positions[feed.order[read]]))
            read += 1
    standing = {(i, ends[i]) for i in range(len(states)) if states[i] != FRESH}
    assert len(met) == len(set(met))
    assert standing <= set(met)
    assert feed.done_count == len(standing)
    told = [feed.order[p] for p in range(len(feed.order)) if p not in feed.superseded]
    assert sorted(told) == sorted(index for index, _ in standing)


def test_who_tells_a_feed_is_freed_with_it_and_not_by_the_collector() -> None:
    feed = a_feed(FRESH)
    gone: list[FeedRef] = []
    ref = FeedRef(feed, gone.append)
    watched = weakref.ref(ref)
    gc.disable()
    try:
        del feed
        assert gone == [ref]
        gone.clear()
        del ref
        assert watched() is None
    finally:
        gc.enable()

"""Results from afar: in batches that grow, one ahead, each of them once."""

from array import array
from collections.abc import Sequence

import pytest

from holdfast.client.errors import OperatingError, ResultLost, TaskFailed
from holdfast.client.feed import JobFeed
from holdfast.client.fetched import BATCH_BYTES, FIRST_BATCH, LARGEST_BATCH, FetchedOutcomes
from holdfast.coordinator.watch import JobNow
from holdfast.core.ids import JobId
from holdfast.core.task import TaskState
from holdfast.wire.bodies import Outcome
from holdfast.wire.contents import new_digest

DONE, FAILED = TaskState.SUCCEEDED, TaskState.QUARANTINED


class Shelf:
    """Where outcomes are fetched from: what was asked for, and how it is answered."""

    def __init__(self, size: int = 1) -> None:
        self.asked: list[list[int]] = []
        self.size = size
        self.most = LARGEST_BATCH
        self.told: dict[int, Outcome] = {}
        self.large: dict[int, bytes] = {}
        self.read_alone: list[int] = []

    def fetch(self, indices: Sequence[int]) -> list[Outcome]:
        self.asked.append(list(indices))
        return [self._outcome(index) for index in indices[: self.most]]

    def read(self, index: int) -> bytes:
        self.read_alone.append(index)
        return self.large[index]

    def _outcome(self, index: int) -> Outcome:
        well = Outcome(index=index, state="SUCCEEDED", result=b"x" * self.size)
        return self.told.get(index, well)


def a_feed(count: int, state: int = DONE) -> JobFeed:
    feed = JobFeed(JobId("1"))
    ends = array("Q", range(10, 10 + count))
    feed.begin(JobNow(bytes([state]) * count, ends, True, "SUCCEEDED", ""))
    return feed


def outcomes_of(shelf: Shelf, feed: JobFeed, **options: bool) -> FetchedOutcomes:
    lenient = options.get("return_exceptions", False)
    return FetchedOutcomes(shelf.fetch, shelf.read, feed, len, return_exceptions=lenient)


def read(outcomes: FetchedOutcomes, feed: JobFeed, indices: Sequence[int]) -> list[object]:
    outcomes.expect(indices, 0, len(indices))
    return [outcomes.value(i, feed.cells[i], feed.positions[i]) for i in indices]


def test_batches_grow_and_every_task_is_asked_for_once() -> None:
    shelf, feed = Shelf(), a_feed(5_000)
    assert read(outcomes_of(shelf, feed), feed, range(5_000)) == [1] * 5_000
    asked = sorted(index for batch in shelf.asked for index in batch)
    assert asked == list(range(5_000))
    sizes = sorted(map(len, shelf.asked))
    assert (min(sizes[0], FIRST_BATCH), sizes[-1]) == (FIRST_BATCH, LARGEST_BATCH)


def test_large_results_come_in_small_batches() -> None:
    shelf, feed = Shelf(size=BATCH_BYTES // 8), a_feed(100)
    read(outcomes_of(shelf, feed), feed, range(100))
    assert max(map(len, shelf.asked[2:])) <= 8


def stored(index: int, content: bytes) -> Outcome:
    digest = new_digest()
    digest.update(content)
    return Outcome(
        index=index,
        state="SUCCEEDED",
        result_digest=digest.hexdigest(),
        result_bytes=len(content),
    )


def test_what_is_in_the_store_is_read_when_it_is_its_turn() -> None:
    shelf, feed = Shelf(), a_feed(4)
    shelf.large = {1: b"large", 3: b"larger"}
    shelf.told = {index: stored(index, content) for index, content in shelf.large.items()}
    outcomes = outcomes_of(shelf, feed)
    assert read(outcomes, feed, range(3)) == [1, 5, 1]
    assert shelf.read_alone == [1]
    assert read(outcomes, feed, [3]) == [6]


def test_what_comes_otherwise_than_it_was_stored_is_told() -> None:
    shelf, feed = Shelf(), a_feed(1)
    shelf.told, shelf.large = {0: stored(0, b"large")}, {0: b"lorge"}
    with pytest.raises(ResultLost, match="task 1/0 is lost: what the server sent"):
        read(outcomes_of(shelf, feed), feed, [0])


def test_the_order_of_finishing_is_fetched_in_the_order_of_finishing() -> None:
    shelf, feed = Shelf(), a_feed(100)
    order = array("I", reversed(range(100)))
    assert read(outcomes_of(shelf, feed), feed, order) == [1] * 100
    assert sorted(shelf.asked[0]) == list(range(100 - FIRST_BATCH, 100))


def test_a_single_result_is_asked_for_alone_and_kept() -> None:
    shelf, feed = Shelf(), a_feed(1)
    outcomes = outcomes_of(shelf, feed)
    assert not outcomes.holds(0, 10)
    assert [outcomes.value(0, DONE, 10) for _ in range(3)] == [1, 1, 1]
    assert shelf.asked == [[0]]
    # Elsewhere it was told again: what is held is not what is asked for.
    assert not outcomes.holds(0, 11)


def test_an_answer_that_was_cut_is_asked_for_again() -> None:
    shelf, feed = Shelf(), a_feed(100)
    shelf.most = 3
    order = array("I", reversed(range(100)))
    assert read(outcomes_of(shelf, feed), feed, order) == [1] * 100


def test_an_error_is_raised_with_its_traceback_or_given() -> None:
    shelf, feed = Shelf(), a_feed(2, FAILED)
    shelf.told[0] = Outcome(index=0, state="QUARANTINED", error="bad", traceback="Traceback: x")
    with pytest.raises(TaskFailed, match="bad") as caught:
        read(outcomes_of(shelf, feed), feed, [0])
    assert (caught.value.task_id, caught.value.traceback) == ("1/0", "Traceback: x")
    found = read(outcomes_of(shelf, feed, return_exceptions=True), feed, [0, 1])
    assert [type(each) for each in found] == [TaskFailed, TaskFailed]


def test_a_task_that_was_sent_back_meanwhile_failed_all_the_same() -> None:
    """The feed has not heard of it yet; what it then comes to is told in its own time."""
    shelf, feed = Shelf(), a_feed(1, FAILED)
    shelf.told[0] = Outcome(index=0, state="SUCCEEDED", result=b"later")
    (failure,) = read(outcomes_of(shelf, feed, return_exceptions=True), feed, [0])
    assert isinstance(failure, TaskFailed)
    assert (failure.state, failure.error) == ("QUARANTINED", "")


def test_a_script_that_workers_cannot_read_is_explained() -> None:
    shelf, feed = Shelf(), a_feed(1, FAILED)
    error = "CannotFind: cannot find 'script:/there/x.py:f': FileNotFoundError"
    shelf.told[0] = Outcome(index=0, state="QUARANTINED", error=error)
    with pytest.raises(TaskFailed, match="module that is installed where workers run"):
        read(outcomes_of(shelf, feed), feed, [0])


def test_a_result_that_is_no_longer_kept_is_trouble_and_no_value() -> None:
    shelf, feed = Shelf(), a_feed(1)
    shelf.told[0] = Outcome(index=0, state="SUCCEEDED", error="no longer kept")
    with pytest.raises(OperatingError, match="no longer kept"):
        read(outcomes_of(shelf, feed), feed, [0])


def test_trouble_ahead_is_met_when_the_reader_gets_there() -> None:
    shelf, feed = Shelf(), a_feed(FIRST_BATCH + 1)
    outcomes = outcomes_of(shelf, feed)
    good = shelf.fetch

    def fetch(indices: Sequence[int]) -> list[Outcome]:
        if FIRST_BATCH in indices:
            raise OperatingError("away")
        return good(indices)

    outcomes._fetch = fetch
    assert read(outcomes, feed, range(FIRST_BATCH)) == [1] * FIRST_BATCH
    outcomes.expect(range(FIRST_BATCH + 1), FIRST_BATCH, FIRST_BATCH + 1)
    with pytest.raises(OperatingError, match="away"):
        outcomes.value(FIRST_BATCH, DONE, feed.positions[FIRST_BATCH])
    outcomes._fetch = good
    assert outcomes.value(FIRST_BATCH, DONE, feed.positions[FIRST_BATCH]) == 1

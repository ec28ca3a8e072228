"""Keys that something is to be done about: once each, one at a time, later after a failure."""

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.queue import WorkQueue


def at(ms: int) -> Instant:
    return Instant(ms)


def test_a_key_that_was_asked_for_often_is_worked_on_once() -> None:
    queue = WorkQueue()
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert [queue.take(at(1)), queue.take(at(1)), queue.take(at(1))] == ["a", "b", None]


def test_what_comes_while_a_key_is_worked_on_brings_it_back_afterwards() -> None:
    queue = WorkQueue()
    queue.add("a")
    assert queue.take(at(1)) == "a"
    queue.add("a")
    assert queue.take(at(1)) is None
    queue.done("a")
    assert queue.take(at(1)) == "a"
    queue.done("a")
    assert queue.take(at(1)) is None


def test_a_key_comes_by_itself_at_the_soonest_of_its_times() -> None:
    queue = WorkQueue()
    queue.add_at("a", at(100))
    queue.add_at("a", at(50))
    queue.add_at("a", at(70))
    assert queue.next_due(at(1)) == 50
    assert queue.take(at(49)) is None
    assert queue.take(at(50)) == "a"
    queue.done("a")
    # Whoever worked on it says when it has to come again; the other times are over.
    assert queue.next_due(at(50)) == NEVER
    assert queue.take(at(200)) is None


def test_a_key_that_fails_waits_longer_each_time_however_often_it_is_asked_for() -> None:
    queue = WorkQueue(backoff_ms=10, backoff_most_ms=35)
    queue.add("a")
    now, waits = 1, []
    for _ in range(4):
        assert queue.take(at(now)) == "a"
        queue.add("a")
        queue.failed("a", at(now))
        due = queue.next_due(at(now))
        waits.append(due - now)
        now = due
    assert waits == [10, 20, 35, 35]
    assert queue.take(at(now)) == "a"
    queue.done("a")
    queue.add("a")
    queue.take(at(now))
    queue.failed("a", at(now))
    assert queue.next_due(at(now)) - now == 10


def test_a_key_that_is_forgotten_comes_no_more() -> None:
    queue = WorkQueue()
    queue.add("a")
    queue.take(at(1))
    queue.add("a")
    queue.add_at("a", at(5))
    queue.forget("a")
    queue.done("a")
    assert queue.take(at(10)) is None
    assert len(queue) == 0


def test_a_key_that_is_taken_again_and_again_before_its_time_leaves_nothing_behind() -> None:
    queue = WorkQueue()
    for now in range(10_000):
        queue.add("a")
        assert queue.take(Instant(now)) == "a"
        queue.add_at("a", Instant(now + 300_000))
        queue.done("a")
    assert len(queue._heap) < 100
    assert queue.next_due(Instant(10_000)) == 309_999

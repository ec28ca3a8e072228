"""Chunks: items leave by number, by size and by time, and a stuck source holds nothing back."""

import threading
from array import array
from collections.abc import Iterator

import pytest

from holdfast.client import feeder
from holdfast.client.errors import Unreachable
from holdfast.client.feed import JobFeed
from holdfast.client.feeder import CHUNK_BYTES, CHUNK_ITEMS, Chunks, Feeder
from holdfast.coordinator.watch import JobNow
from holdfast.core.ids import Index, JobId, Position
from holdfast.core.task import TaskState

PATIENCE_S = 30


def encode(item: object) -> bytes:
    return b"x" * item if isinstance(item, int) else str(item).encode()


def all_of(chunks: Chunks) -> list[tuple[bytes, ...]]:
    found: list[tuple[bytes, ...]] = []
    while not chunks.exhausted:
        found.append(chunks.next())
    return [chunk for chunk in found if chunk]


def test_everything_comes_once_and_in_order() -> None:
    numbers = [str(n) for n in range(2 * CHUNK_ITEMS + 5)]
    found = all_of(Chunks(numbers, encode, digests=False))
    assert [item.decode() for chunk in found for item in chunk] == numbers
    assert max(map(len, found)) <= CHUNK_ITEMS


def test_large_items_travel_in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    # Time is never up: a chunk leaves here because it is large enough.
    monkeypatch.setattr(feeder, "CHUNK_SECONDS", PATIENCE_S)
    found = all_of(Chunks([CHUNK_BYTES // 2] * 6, encode, digests=False))
    assert [len(chunk) for chunk in found] == [2, 2, 2]


def test_an_empty_source_is_exhausted_at_once() -> None:
    chunks = Chunks([], encode, digests=False)
    assert chunks.next() == ()
    assert chunks.exhausted


def test_what_came_before_a_silence_does_not_wait_for_what_comes_after_it() -> None:
    silence = threading.Event()

    def items() -> Iterator[str]:
        yield "before"
        assert silence.wait(PATIENCE_S)
        yield "after"

    chunks = Chunks(items(), encode, digests=False)
    assert chunks.next() == (b"before",)
    silence.set()
    assert all_of(chunks) == [(b"after",)]


def test_a_source_that_raises_is_heard_after_what_it_gave() -> None:
    def items() -> Iterator[str]:
        yield "good"
        raise OSError("the source is gone")

    chunks = Chunks(items(), encode, digests=False)
    assert chunks.next() == (b"good",)
    with pytest.raises(OSError, match="the source is gone"):
        chunks.next()


def test_who_stops_waits_for_no_source() -> None:
    silence = threading.Event()

    def items() -> Iterator[str]:
        silence.wait(PATIENCE_S)
        yield "too late"

    chunks = Chunks(items(), encode, digests=False)
    stopper = threading.Timer(0, chunks.stop)
    stopper.start()
    assert chunks.next() == ()
    stopper.join()
    silence.set()


def test_the_source_is_taken_only_a_little_ahead() -> None:
    taken = 0

    def items() -> Iterator[str]:
        nonlocal taken
        for taken in range(10 * CHUNK_ITEMS):
            yield str(taken)

    chunks = Chunks(items(), encode, digests=False)
    chunks.next()
    assert taken <= 4 * CHUNK_ITEMS
    chunks.stop()


def test_skipped_items_count_for_the_digest_as_if_they_had_been_fed() -> None:
    whole, rest = (Chunks(["a", "b", "c"], encode, digests=True) for _ in range(2))
    all_of(whole)
    assert rest.skip(2) == 2
    all_of(rest)
    assert whole.digest() == rest.digest()
    other = Chunks(["a", "x", "c"], encode, digests=True)
    all_of(other)
    assert whole.digest() != other.digest()


def test_skipping_more_than_there_is_tells_how_much_there_was() -> None:
    chunks = Chunks(["a", "b"], encode, digests=True)
    assert chunks.skip(5) == 2
    assert not chunks.has_more()


def test_without_a_key_nothing_is_hashed() -> None:
    assert Chunks(["a"], encode, digests=False).digest() == b""


def test_a_source_that_is_silent_for_long_is_come_back_to() -> None:
    silence = threading.Event()

    def items() -> Iterator[str]:
        assert silence.wait(PATIENCE_S)
        yield "late"

    chunks = Chunks(items(), encode, digests=False)
    assert chunks.next(0.001) == ()
    assert not chunks.exhausted
    silence.set()
    assert all_of(chunks) == [(b"late",)]


class Listening:
    """As much of a backend as a feeder needs, far enough away that silence worries it."""

    silence_s = 0.001

    def __init__(self, feed: JobFeed) -> None:
        self.feed = feed
        self.items: list[bytes] = []
        self.signs = 0
        self.heard = threading.Event()
        self.sealed: list[tuple[int, bool]] = []
        self.trouble: Exception | None = None

    def add_items(self, job_id: JobId, first: int, items: tuple[bytes, ...], digest: bytes) -> None:
        if self.trouble is not None:
            raise self.trouble
        assert first == len(self.items)
        self.items.extend(items)

    def seal(self, job_id: JobId, count: int, *, interrupted: bool) -> None:
        self.sealed.append((count, interrupted))

    def still_feeding(self, job_id: JobId) -> None:
        self.signs += 1
        if self.signs >= 3:
            self.heard.set()


def a_feed() -> JobFeed:
    feed = JobFeed(JobId("1"))
    feed.begin(JobNow(b"", array("Q"), False, "", ""))
    return feed


def feed_all(backend: Listening, items: Iterator[str]) -> Feeder:
    chunks = Chunks(items, encode, digests=False)
    feeding = Feeder(backend, backend.feed, chunks, 0)  # type: ignore[arg-type]
    feeding.start()
    feeding.finish()
    return feeding


def test_a_feeder_shows_that_it_lives_while_its_source_is_silent() -> None:
    backend = Listening(a_feed())

    def items() -> Iterator[str]:
        yield "first"
        assert backend.heard.wait(PATIENCE_S)
        yield "second"

    assert feed_all(backend, items()).error is None
    assert (backend.items, backend.sealed) == ([b"first", b"second"], [(2, False)])
    assert backend.signs >= 3


def test_a_feeder_shows_that_it_lives_while_the_workers_take_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feeder, "WINDOW_ITEMS", 1)
    backend = Listening(a_feed())

    def work() -> None:
        assert backend.heard.wait(PATIENCE_S)
        backend.feed.grown(1, sealed=False)
        backend.feed.finished([Index(0)], TaskState.SUCCEEDED, Position(3))

    worker = threading.Thread(target=work)
    worker.start()

    def items() -> Iterator[str]:
        yield "first"
        assert backend.heard.wait(PATIENCE_S)
        yield "second"

    feed_all(backend, items())
    worker.join()
    assert (backend.items, backend.sealed) == ([b"first", b"second"], [(2, False)])


def test_items_that_nobody_took_interrupt_the_job() -> None:
    backend = Listening(a_feed())
    backend.trouble = Unreachable("http://there", "nobody")
    assert feed_all(backend, iter(["first"])).error is backend.trouble
    assert backend.sealed == [(0, True)]

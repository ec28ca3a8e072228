"""The stream of a connection: opened again when it breaks, and every job told on it once."""

import gc
import threading
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from holdfast.client import streams
from holdfast.client.errors import Closed, NotAllowed, OperatingError, Refused, Unreachable
from holdfast.client.feed import UNFINISHED, FeedRef, JobFeed
from holdfast.client.streams import Streams, tell
from holdfast.core.ids import JobId
from holdfast.core.task import FRESH, TaskState
from holdfast.wire import watching as w
from holdfast.wire.bodies import Problem, Watch
from holdfast.wire.http import Rejected, Server

PATIENCE_S = 30


def rejected(status: int, code: str) -> Rejected:
    return Rejected(Problem(type="", title="no", status=status, detail="no", code=code))


def told(no: Rejected) -> Exception:
    kind = NotAllowed if no.problem.status in (401, 403) else Refused
    return kind(no.problem.code, no.problem.detail)


class Line:
    """The other end: what it says on each stream is put in by hand, and None ends the stream."""

    def __init__(self) -> None:
        self.server = Server(url="http://there")
        self.opened: SimpleQueue[SimpleQueue[object]] = SimpleQueue()
        self.asked: SimpleQueue[tuple[str, list[str]]] = SimpleQueue()
        self.dropped: SimpleQueue[tuple[str, list[str]]] = SimpleQueue()
        self.may_drop = threading.Event()
        self.may_drop.set()
        self.refusal: Exception | None = None
        self.refused: SimpleQueue[str] = SimpleQueue()
        self.cannot_post: Exception | None = None
        self._count = 0
        self._talk: SimpleQueue[object] = SimpleQueue()

    @contextmanager
    def stream(self, path: str, *, idle_s: float) -> Iterator[Iterator[bytes]]:
        if self.refusal is not None:
            self.refused.put(path)
            raise self.refusal
        self._count += 1
        self._talk = talk = SimpleQueue()
        talk.put(w.Opened(f"s{self._count}"))
        self.opened.put(talk)
        yield self._bytes(talk)

    def post(self, path: str, body: Watch, kind: type, *, key: str) -> dict[str, object]:
        assert key
        name = path.rpartition("/")[2]
        echoes = [job for job in body.jobs if job.startswith("echo:")]
        for echo in echoes:
            self._talk.put(w.Missing(echo, "not_found", "there is no such job"))
        jobs = [job for job in body.jobs if job not in echoes]
        if body.drop:
            self.dropped.put((name, sorted(body.drop)))
            assert self.may_drop.wait(PATIENCE_S)
        if self.cannot_post is not None:
            raise self.cannot_post
        if jobs:
            self.asked.put((name, sorted(jobs)))
        return {}

    def _bytes(self, talk: "SimpleQueue[object]") -> Iterator[bytes]:
        while (said := talk.get(timeout=PATIENCE_S)) is not None:
            if isinstance(said, Exception):
                raise said
            frame = w.packed(said)
            # Frames are cut anywhere on their way.
            yield frame[:3]
            yield frame[3:]


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def told_on(line: Line) -> Iterator[Streams]:
    opened = Streams(line, "/watch", PATIENCE_S, told)  # type: ignore[arg-type]
    yield opened
    opened._closing.set()
    line._talk.put(None)
    opened.close(Closed("closed"))


def begun(job_id: str, *states: int, ends: tuple[int, ...] = (), ended: str = "") -> w.Begun:
    return w.Begun(job_id, bytes(states), array("Q", ends).tobytes(), True, ended, "")


def submitted(told_on: Streams, job_id: str, count: int = 1) -> JobFeed:
    with told_on.expecting() as expected:
        return expected.began(JobId(job_id), count, sealed=True)


def wait(feed: JobFeed, state: str) -> None:
    assert feed.wait_for(lambda: feed.state == state, PATIENCE_S)


def test_news_that_comes_before_the_answer_is_not_lost(line: Line, told_on: Streams) -> None:
    with told_on.expecting() as expected:
        assert expected.name == "s1"
        line._talk.put(begun("1", FRESH))
        line._talk.put(w.Finished("1", ((0, 0),), TaskState.SUCCEEDED, 9))
        line._talk.put(w.Ended("1", "SUCCEEDED", ""))
        # Held, since nobody catches up with a job that no one here holds any more.
        other = told_on.take_in(JobId("other"), "s1", None)
        told_on.catch_up(other.job_id)
        feed = expected.began(JobId("1"), 1, sealed=True)
    assert (feed.state, list(feed.positions)) == ("SUCCEEDED", [9])
    assert line.asked.empty()


def test_a_stream_that_breaks_is_opened_again_and_every_job_asked_for(
    line: Line, told_on: Streams
) -> None:
    first, second = submitted(told_on, "1"), submitted(told_on, "2", 2)
    line._talk.put(w.Finished("2", ((1, 1),), TaskState.SUCCEEDED, 5))
    line._talk.put(Unreachable("http://there", "cut"))
    assert line.asked.get(timeout=PATIENCE_S) == ("s2", ["1", "2"])
    assert told_on.opened() == "s2"
    line._talk.put(begun("1", TaskState.SUCCEEDED, ends=(8,), ended="SUCCEEDED"))
    line._talk.put(begun("2", TaskState.SUCCEEDED, TaskState.SUCCEEDED, ends=(7, 5), ended="DONE"))
    wait(first, "SUCCEEDED")
    wait(second, "DONE")
    assert (list(first.order), list(second.order), second.done_count) == ([0], [1, 0], 2)


def test_a_job_that_was_submitted_on_a_stream_that_broke_is_asked_for_on_the_next(
    line: Line, told_on: Streams
) -> None:
    keep = submitted(told_on, "1")
    with told_on.expecting() as expected:
        line._talk.put(None)
        assert line.asked.get(timeout=PATIENCE_S) == ("s2", ["1"])
        assert told_on.opened() == "s2"
        feed = expected.began(JobId("2"), 1, sealed=True)
        assert line.asked.get(timeout=PATIENCE_S) == ("s2", ["2"])
    line._talk.put(w.Ended("2", "KILLED", "cancelled"))
    wait(feed, "KILLED")
    assert keep.state == ""


def test_a_second_handle_of_a_job_is_first_told_how_it_stands(line: Line, told_on: Streams) -> None:
    first = submitted(told_on, "1", 3)
    found: list[JobFeed] = []
    finder = threading.Thread(target=lambda: found.append(told_on.watch(JobId("1"))))
    finder.start()
    assert line.asked.get(timeout=PATIENCE_S) == ("s1", ["1"])
    # This was on its way already, and is in what follows.
    line._talk.put(w.Finished("1", ((0, 1),), TaskState.SUCCEEDED, 5))
    line._talk.put(begun("1", TaskState.SUCCEEDED, TaskState.SUCCEEDED, FRESH, ends=(5, 5, 0)))
    finder.join(PATIENCE_S)
    line._talk.put(w.Finished("1", ((2, 2),), TaskState.QUARANTINED, 6))
    line._talk.put(w.Ended("1", "FAILED", "quarantined"))
    for feed in (first, *found):
        wait(feed, "FAILED")
        assert (list(feed.order), feed.done_count) == ([0, 1, 2], 3)


def test_a_job_that_is_not_there_is_told_to_whoever_looks_for_it(
    line: Line, told_on: Streams
) -> None:
    caught: list[Refused] = []

    def look() -> None:
        with pytest.raises(Refused) as error:
            told_on.watch(JobId("9"))
        caught.append(error.value)

    looker = threading.Thread(target=look)
    looker.start()
    line.asked.get(timeout=PATIENCE_S)
    line._talk.put(w.Missing("9", "gone", "job 9 left memory"))
    looker.join(PATIENCE_S)
    assert [error.code for error in caught] == ["gone"]


def test_a_server_that_stays_away_is_told_to_all_and_asked_again_by_the_next(line: Line) -> None:
    told_on = Streams(line, "/watch", 0.0, told)  # type: ignore[arg-type]
    feed = submitted(told_on, "1")
    line.refusal = Unreachable("http://there", "nobody")
    line._talk.put(None)
    with pytest.raises(Unreachable):
        feed.wait_for(lambda: bool(feed.state), PATIENCE_S)
    with pytest.raises(Unreachable):
        told_on.opened()
    line.refusal = None
    told_on.revive()
    assert line.asked.get(timeout=PATIENCE_S) == ("s2", ["1"])
    line._talk.put(begun("1", TaskState.SUCCEEDED, ends=(3,), ended="SUCCEEDED"))
    wait(feed, "SUCCEEDED")
    line._talk.put(None)
    told_on.close(Closed("closed"))


def test_a_token_that_may_not_watch_may_still_submit(line: Line, told_on: Streams) -> None:
    line.refusal = rejected(403, "forbidden")
    with told_on.expecting() as expected:
        assert expected.name == ""
        feed = expected.began(JobId("1"), 1, sealed=True)
    with pytest.raises(NotAllowed):
        feed.wait_for(lambda: bool(feed.state), PATIENCE_S)
    with pytest.raises(NotAllowed):
        told_on.watch(JobId("1"))


def test_closing_tells_everyone_who_waits(line: Line) -> None:
    told_on = Streams(line, "/watch", PATIENCE_S, told)  # type: ignore[arg-type]
    feed = submitted(told_on, "1")
    told_on._closing.set()
    line._talk.put(None)
    told_on.close(Closed("it was closed"))
    with pytest.raises(Closed):
        feed.wait_for(lambda: bool(feed.state), PATIENCE_S)
    with pytest.raises(Closed):
        told_on.opened()


def test_jobs_whose_handles_are_gone_are_dropped_in_a_quiet_moment(
    line: Line, told_on: Streams
) -> None:
    keep = submitted(told_on, "keep")
    submitted(told_on, "1")
    submitted(told_on, "2")
    gc.collect()
    line._talk.put(w.Alive())
    assert line.dropped.get(timeout=PATIENCE_S) == ("s1", ["1", "2"])
    line._talk.put(w.Ended("keep", "KILLED", ""))
    wait(keep, "KILLED")
    assert (line.opened.qsize(), line.dropped.empty(), line.asked.empty()) == (1, True, True)


def test_a_busy_stream_drops_when_many_are_told_to_nobody(
    line: Line, told_on: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "CLUTTER", 2)
    keep = submitted(told_on, "keep")
    for number in range(3):
        submitted(told_on, str(number))
    gc.collect()
    line._talk.put(w.Grown("keep", 1, True))
    assert line.dropped.get(timeout=PATIENCE_S) == ("s1", ["0", "1", "2"])
    line._talk.put(w.Ended("keep", "KILLED", ""))
    wait(keep, "KILLED")


def test_a_job_that_is_being_dropped_is_asked_for_when_that_is_done(
    line: Line, told_on: Streams
) -> None:
    keep = submitted(told_on, "keep")
    submitted(told_on, "1")
    gc.collect()
    line.may_drop.clear()
    line._talk.put(w.Alive())
    assert line.dropped.get(timeout=PATIENCE_S) == ("s1", ["1"])
    found: list[JobFeed] = []
    finder = threading.Thread(target=lambda: found.append(told_on.watch(JobId("1"))))
    finder.start()
    while JobId("1") not in told_on._watched:
        finder.join(0.001)
    assert line.asked.empty()
    line.may_drop.set()
    assert line.asked.get(timeout=PATIENCE_S) == ("s1", ["1"])
    line._talk.put(begun("1", FRESH, ended="KILLED"))
    finder.join(PATIENCE_S)
    wait(found[0], "KILLED")
    assert keep.state == ""


def test_a_job_that_was_dropped_while_it_was_submitted_again_is_asked_for(
    line: Line, told_on: Streams
) -> None:
    keep = submitted(told_on, "keep")
    submitted(told_on, "1")
    gc.collect()
    found: list[JobFeed] = []
    answer = threading.Event()

    def find() -> None:
        with told_on.expecting() as expected:
            line._talk.put(w.Alive())
            # The server has watched it for us, and then drops it as it was told before.
            assert answer.wait(PATIENCE_S)
            found.append(expected.was_found(JobId("1")))

    finder = threading.Thread(target=find)
    finder.start()
    assert line.dropped.get(timeout=PATIENCE_S) == ("s1", ["1"])
    told_on.catch_up(JobId("keep"))
    answer.set()
    assert line.asked.get(timeout=PATIENCE_S) == ("s1", ["1"])
    line._talk.put(begun("1", FRESH, ended="KILLED"))
    finder.join(PATIENCE_S)
    wait(found[0], "KILLED")
    assert (keep.state, told_on._unsure) == ("", set())


def test_a_drop_that_is_refused_harms_nobody(line: Line, told_on: Streams) -> None:
    keep = submitted(told_on, "keep")
    submitted(told_on, "1")
    gc.collect()
    line.cannot_post = rejected(422, "invalid")
    line._talk.put(w.Alive())
    assert line.dropped.get(timeout=PATIENCE_S) == ("s1", ["1"])
    line._talk.put(w.Ended("keep", "KILLED", ""))
    wait(keep, "KILLED")
    assert line.opened.qsize() == 1


def test_a_stream_that_nobody_needs_stays_closed(line: Line, told_on: Streams) -> None:
    submitted(told_on, "1")
    gc.collect()
    thread = told_on._thread
    line._talk.put(None)
    assert thread is not None
    thread.join(PATIENCE_S)
    assert line.opened.qsize() == 1
    assert submitted(told_on, "2").begun
    assert line.opened.qsize() == 2


def test_who_catches_up_is_not_forgotten_when_the_last_handle_goes(
    line: Line, told_on: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(streams, "LONGEST_PAUSE_S", 0.001)
    feed = submitted(told_on, "1")
    line.refusal = Unreachable("http://there", "nobody")
    line._talk.put(None)
    # Only then is it away: before, whoever asks would find it open.
    line.refused.get(timeout=PATIENCE_S)
    asking, plainly = threading.Event(), told_on.opened

    def opened() -> str:
        asking.set()
        return plainly()

    monkeypatch.setattr(told_on, "opened", opened)
    catching_up = threading.Thread(target=told_on.catch_up, args=(feed.job_id,), daemon=True)
    catching_up.start()
    assert asking.wait(PATIENCE_S)
    del feed
    gc.collect()
    while not line.refused.empty():
        line.refused.get()
    for _ in range(2):
        # Whoever is asked for is tried again, and again.
        line.refused.get(timeout=PATIENCE_S)
    line.refusal = None
    catching_up.join(PATIENCE_S)
    assert not catching_up.is_alive()


def test_what_cannot_be_read_is_told_and_not_waited_for(line: Line) -> None:
    told_on = Streams(line, "/watch", 0.0, told)  # type: ignore[arg-type]
    feed = submitted(told_on, "1")
    line._talk.put(ValueError("garbage"))
    with pytest.raises(OperatingError, match="what http://there tells cannot be read: garbage"):
        feed.wait_for(lambda: bool(feed.state), PATIENCE_S)
    told_on.close(Closed("closed"))


def test_every_message_means_to_a_feed_what_it_says() -> None:
    feed = JobFeed(JobId("1"))
    ref = FeedRef(feed, lambda _: None)
    tell(ref, w.Begun("1", bytes([FRESH, FRESH]), b"", False, "", ""))
    tell(ref, w.Grown("1", 4, True))
    tell(ref, w.Finished("1", ((0, 0), (2, 3)), TaskState.QUARANTINED, 2**40))
    tell(ref, w.Reopened("1", ((2, 3),)))
    assert [cell == UNFINISHED for cell in feed.cells] == [False, True, True, True]
    assert (feed.positions[0], feed.sealed, feed.done_count) == (2**40, True, 1)
    tell(ref, w.Ended("1", "FAILED", "quarantined"))
    assert (feed.state, feed.reason) == ("FAILED", "quarantined")
    tell(ref, w.Missing("1", "gone", "it left"))
    assert isinstance(feed.error, Refused)

"""The one stream of a connection: all jobs that somebody here holds on to are told on it.

It is opened when first needed, by a thread of its own, and opened again when it breaks; every job
is then told anew, and its feed takes that as news only where it is news. A server that stays away
for longer than the patience is given up, which everyone who waits is told; the next one who asks
begins again.
"""

import random
import sys
import threading
import time
import uuid
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from holdfast.client.errors import NotAllowed, OperatingError, Refused, Unreachable
from holdfast.client.feed import FeedRef, JobFeed
from holdfast.coordinator.watch import JobNow
from holdfast.core.ids import Index, JobId, Position
from holdfast.core.task import FRESH, TaskState
from holdfast.wire import watching as w
from holdfast.wire.answers import NOT_NOW
from holdfast.wire.bodies import Watch
from holdfast.wire.http import Http, Rejected

IDLE_S: Final = 30.0
"""The server says something every ten seconds; whoever is silent for this long is gone."""

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 5.0
STEADY_S: Final = 1.0
JOBS_AT_ONCE: Final = 5_000
CLUTTER: Final = 1_000
"""How many jobs may be told that nobody holds any more, before a busy stream is told so. In a quiet
moment it is told at once."""

PASSING: Final = NOT_NOW | {404}
"""Answers that another try may change. A stream that is not found went with its server."""

STOP_S: Final = 5.0


class Expected:
    """A job that is about to be submitted, to be told on this stream from its first moment."""

    def __init__(self, streams: "Streams", name: str) -> None:
        self.name = name
        self._streams = streams

    def began(self, job_id: JobId, count: int, *, sealed: bool) -> JobFeed:
        """It has been recorded, and this is its feed: so many tasks, none of which was begun."""
        now = JobNow(bytes((FRESH,)) * count, array("Q"), sealed, "", "")
        return self._streams.take_in(job_id, self.name, now)

    def was_found(self, job_id: JobId) -> JobFeed:
        """It may have been there before: its feed, once it was told how the job stands."""
        feed = self._streams.take_in(job_id, self.name, None)
        feed.wait_for(lambda: feed.begun, None)
        return feed


class Streams:
    """Feeds are held weakly: a job whose last handle is gone is told to nobody."""

    def __init__(
        self, http: Http, path: str, patience_s: float, told: Callable[[Rejected], Exception]
    ) -> None:
        self._http = http
        self._path = path
        self._patience_s = patience_s
        self._told = told
        self._changed = threading.Condition()
        self._feeds: dict[JobId, list[FeedRef]] = {}
        # Feeds that are gone. They go at any moment, in any thread, so they are only noted here.
        self._gone: deque[FeedRef] = deque()
        self._name = ""
        self._watched: set[JobId] = set()
        # Jobs that the server is being told to drop: asked for again only when that is done. A job
        # that somebody finds while it is dropped is told or not, and must be asked for.
        self._dropping: frozenset[JobId] = frozenset()
        self._unsure: set[JobId] = set()
        self._expecting = 0
        self._early: dict[JobId, list[Any]] = {}
        self._echoes: set[JobId] = set()
        self._thread: threading.Thread | None = None
        self._trouble: Exception | None = None
        self._closing = threading.Event()

    # Called by whoever asks for work or waits for it.

    @contextmanager
    def expecting(self) -> Iterator[Expected]:
        """Keep what is told of jobs that nobody knows yet: the answer that names one may come
        after the first news of it."""
        with self._changed:
            self._expecting += 1
        try:
            yield Expected(self, self.opened())
        finally:
            with self._changed:
                self._expecting -= 1
                if not self._expecting:
                    self._early.clear()
                    self._unsure.intersection_update(self._dropping)

    def watch(self, job_id: JobId) -> JobFeed:
        """The feed of a job that exists, once it was told how the job stands."""
        with self.expecting() as expected:
            expected.name = ""
            return expected.was_found(job_id)

    def catch_up(self, job_id: JobId) -> None:
        """Whoever changed a job sees the change: return when all that was told of it so far has
        arrived. The stream keeps its order, so news of a job that is none is asked for and
        awaited."""
        echo = JobId(f"echo:{uuid.uuid4().hex}")
        if job_id not in self._feeds:
            return
        try:
            # Counted as somebody who expects something: else the stream could be given up as
            # unneeded under our eyes, when the last handle of the job goes.
            with self.expecting() as expected:
                name = expected.name
            with self._changed:
                if not name or name != self._name:
                    return
                self._echoes.add(echo)
            self._post(name, [echo])
        except (Rejected, OperatingError):
            # What was asked for is done, and this was only to see it sooner.
            with self._changed:
                self._echoes.discard(echo)
        with self._changed:
            self._changed.wait_for(lambda: echo not in self._echoes, self._patience_s)
            self._echoes.discard(echo)

    def opened(self) -> str:
        """The name of the open stream; empty where this token may not watch."""
        with self._changed:
            self.revive()
            self._changed.wait_for(lambda: self._name or self._trouble is not None)
            if self._trouble is not None and not isinstance(self._trouble, NotAllowed):
                raise self._trouble
            return self._name

    def revive(self) -> None:
        """Somebody waits: open the stream, also where it was given up before."""
        with self._changed:
            if self._thread is not None or self._closing.is_set():
                return
            if isinstance(self._trouble, NotAllowed):
                return
            self._trouble = None
            for feed in self._all():
                feed.mended()
            self._thread = threading.Thread(target=self._run, name="holdfast-watch", daemon=True)
            self._thread.start()

    def take_in(self, job_id: JobId, told_on: str, now: JobNow | None) -> JobFeed:
        """Hold the feed of a job, which `told_on` tells already; on any other stream it is asked
        for. `now` is how the job stands as far as its asker knows."""
        feed = JobFeed(job_id)
        ref = FeedRef(feed, self._gone.append)
        with self._changed:
            self._feeds.setdefault(job_id, []).append(ref)
            for message in self._early.pop(job_id, ()):
                tell(ref, message)
            if now is not None and not feed.begun:
                feed.begin(now)
            name = self._name
            # News of a job that was known already went to those who knew it.
            known = job_id in self._watched or job_id in self._unsure
            asked = name == told_on and not known
            if name:
                self._watched.add(job_id)
            if isinstance(self._trouble, NotAllowed):
                feed.broken(self._trouble)
        if name and not asked:
            self._ask_for(name, feed)
        return feed

    def close(self, why: Exception) -> None:
        """Nobody is told anything any more. The connection must have been closed."""
        self._closing.set()
        thread = self._thread
        if thread is not None:
            thread.join(STOP_S)
        self._give_up(why)

    # On the thread of the stream.

    def _run(self) -> None:
        pause = FIRST_PAUSE_S
        away_since = time.monotonic()
        while True:
            began = time.monotonic()
            why, opened = self._listen()
            if self._is_unneeded():
                return
            if opened:
                away_since = time.monotonic()
                # A server that is leaving opens a stream only to end it; that is no time to hurry.
                pause = FIRST_PAUSE_S if away_since - began >= STEADY_S else pause
            is_final = isinstance(why, Rejected) and why.problem.status not in PASSING
            if is_final or time.monotonic() - away_since >= self._patience_s:
                self._give_up(self._told(why) if isinstance(why, Rejected) else why)
                return
            # Full jitter: a thousand clients must not come back in step.
            self._closing.wait(random.uniform(0, pause))  # noqa: S311
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _listen(self) -> tuple[Exception, bool]:
        """Read a stream to its end: why it ended, and whether it ever was open."""
        opened = False
        try:
            with self._http.stream(self._path, idle_s=IDLE_S) as chunks:
                held = bytearray()
                for chunk in chunks:
                    held += chunk
                    is_quiet = False
                    for message in w.unpacked(held):
                        if isinstance(message, w.Opened):
                            opened = True
                            self._begin(message.stream)
                        elif isinstance(message, w.Alive):
                            is_quiet = True
                        else:
                            self._take(message)
                    self._drop_the_unheld(is_quiet=is_quiet)
            return Unreachable(self._http.server.url, "it ended the stream"), opened
        except (Rejected, OperatingError) as error:
            return error, opened
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
            url = self._http.server.url
            return OperatingError(f"what {url} tells cannot be read: {error}"), opened
        finally:
            with self._changed:
                self._name = ""
                self._watched.clear()
                self._echoes.clear()
                self._changed.notify_all()

    def _begin(self, name: str) -> None:
        """Have every job told anew. The stream has a name only then: whoever finds it open may
        rely on what comes."""
        with self._changed:
            self._early.clear()
        while True:
            with self._changed:
                self._sweep()
                jobs = [job_id for job_id in self._feeds if job_id not in self._watched]
                if not jobs:
                    self._name = name
                    self._changed.notify_all()
                    return
                self._watched.update(jobs[:JOBS_AT_ONCE])
            self._post(name, jobs[:JOBS_AT_ONCE])

    def _ask_for(self, name: str, feed: JobFeed) -> None:
        """Have one more job told. Where the stream went meanwhile, the next one has them all."""
        with self._changed:
            self._changed.wait_for(lambda: feed.job_id not in self._dropping)
        try:
            self._post(name, [feed.job_id])
        except Unreachable:
            return
        except Rejected as no:
            if no.problem.status not in PASSING:
                feed.broken(self._told(no))

    def _post(self, name: str, jobs: list[JobId], drop: Iterable[JobId] = ()) -> None:
        body = Watch(jobs=[str(job_id) for job_id in jobs], drop=[str(job_id) for job_id in drop])
        self._http.post(f"{self._path}/{name}", body, dict, key=uuid.uuid4().hex)

    def _take(self, message: Any) -> None:
        job_id = JobId(message.job_id)
        with self._changed:
            if job_id in self._echoes:
                self._echoes.remove(job_id)
                self._changed.notify_all()
            for feed in self._feeds.get(job_id, ()):
                # Whoever came late is first told how the job stands.
                if feed.has_begun() or isinstance(message, w.Begun | w.Missing):
                    tell(feed, message)
            if self._expecting and job_id not in self._watched:
                self._early.setdefault(job_id, []).append(message)

    def _drop_the_unheld(self, *, is_quiet: bool) -> None:
        """Have the server tell no more of jobs that nobody here holds any more."""
        with self._changed:
            self._sweep()
            unheld = len(self._watched) - len(self._feeds)
            if not self._name or unheld <= (0 if is_quiet else CLUTTER):
                return
            name = self._name
            dropped = [job_id for job_id in self._watched if job_id not in self._feeds]
            self._dropping = frozenset(dropped[:JOBS_AT_ONCE])
            self._watched -= self._dropping
            self._unsure |= self._dropping
        try:
            self._post(name, [], self._dropping)
        except (Rejected, OperatingError):
            # They are told to nobody, as before; a stream that has broken shows it by itself.
            pass
        finally:
            with self._changed:
                self._dropping = frozenset()
                if not self._expecting:
                    self._unsure.clear()
                self._changed.notify_all()

    def _is_unneeded(self) -> bool:
        """Whether nobody would hear what another stream tells. Then the thread ends here."""
        with self._changed:
            self._sweep()
            if self._closing.is_set() or not (self._feeds or self._expecting):
                self._thread = None
                return True
            return False

    def _give_up(self, why: Exception) -> None:
        with self._changed:
            self._trouble = why
            self._thread = None
            for feed in self._all():
                feed.broken(why)
            self._changed.notify_all()

    def _all(self) -> list[FeedRef]:
        return [feed for feeds in self._feeds.values() for feed in feeds]

    def _sweep(self) -> None:
        """Forget the jobs that nobody here holds any more."""
        while self._gone:
            ref = self._gone.popleft()
            feeds = self._feeds.get(ref.job_id, [])
            if ref in feeds:
                feeds.remove(ref)
            if not feeds:
                self._feeds.pop(ref.job_id, None)


def tell(feed: FeedRef, message: Any) -> None:
    """A feed is told what a message says."""
    match message:
        case w.Begun():
            ends = array("Q", message.ends)
            if sys.byteorder != "little":
                ends.byteswap()
            feed.begin(JobNow(message.states, ends, message.sealed, message.ended, message.reason))
        case w.Grown():
            feed.grown(message.count, message.sealed)
        case w.Finished():
            state, position = TaskState(message.state), Position(message.position)
            feed.finished(_indices(message.spans), state, position)
        case w.Reopened():
            feed.reopened(_indices(message.spans))
        case w.Ended():
            feed.ended(message.state, message.reason)
        case w.Missing():
            feed.broken(Refused(message.code, message.message))


def _indices(spans: tuple[tuple[int, int], ...]) -> Sequence[Index]:
    return cast(Sequence[Index], w.indices_of(spans))

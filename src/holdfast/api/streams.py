"""Streams of news: who listens, to which jobs, and what has not been sent to them yet."""

import asyncio
import secrets
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Final

from holdfast.api.identity import Identity
from holdfast.coordinator.serving import Served
from holdfast.coordinator.watch import JobNow
from holdfast.core.decide.jobs import unknown
from holdfast.core.ids import Index, JobId, Position
from holdfast.core.task import TaskState
from holdfast.wire.watching import (
    Alive,
    AnyMessage,
    Begun,
    Ended,
    Finished,
    Grown,
    Missing,
    Opened,
    Reopened,
    packed,
    spans_of,
)

ALIVE_S: Final = 10.0
MOST_UNSENT: Final = 64 * 1024 * 1024
MOST_STREAMS: Final = 1_000


class Listener:
    """One stream. Who does not read what is sent is let go: a new stream tells everything anew."""

    def __init__(self, name: str, token_id: str) -> None:
        self.name = name
        self.token_id = token_id
        self.jobs: dict[JobId, JobFeed] = {}
        self.closed = False
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._news: asyncio.Future[None] | None = None

    def tell(self, message: AnyMessage) -> None:
        frame = packed(message)
        self._unsent.append(frame)
        self._unsent_bytes += len(frame)
        if self._unsent_bytes > MOST_UNSENT:
            self.close()
        self._ring()

    def close(self) -> None:
        self.closed = True
        self._ring()

    def _ring(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def frames(self) -> AsyncIterator[bytes]:
        """What there is to send, as it comes, and a sign of life where nothing comes."""
        self.tell(Opened(self.name))
        loop = asyncio.get_running_loop()
        while True:
            if not self._unsent and not self.closed:
                self._news = loop.create_future()
                silence = loop.call_later(ALIVE_S, self.tell, Alive())
                try:
                    await self._news
                finally:
                    silence.cancel()
            frames, self._unsent, self._unsent_bytes = self._unsent, [], 0
            if frames:
                yield b"".join(frames)
            if self.closed:
                return


class JobFeed:
    """One job, told to one stream."""

    def __init__(self, listener: Listener, job_id: JobId) -> None:
        self.job_id = job_id
        self._listener = listener

    def begin(self, now: JobNow) -> None:
        ends = now.ends
        if sys.byteorder != "little":
            ends = ends[:]
            ends.byteswap()
        self._listener.tell(
            Begun(self.job_id, now.states, ends.tobytes(), now.sealed, now.ended, now.reason)
        )

    def grown(self, count: int, sealed: bool) -> None:
        self._listener.tell(Grown(self.job_id, count, sealed))

    def finished(self, indices: Sequence[Index], state: TaskState, position: Position) -> None:
        self._listener.tell(Finished(self.job_id, spans_of(indices), int(state), position))

    def reopened(self, indices: Sequence[Index]) -> None:
        self._listener.tell(Reopened(self.job_id, spans_of(indices)))

    def ended(self, state: str, reason: str) -> None:
        self._listener.tell(Ended(self.job_id, state, reason))

    def broken(self, error: Exception) -> None:
        self._listener.close()


class Streams:
    """The streams that are open, by name. Each belongs to the token that opened it."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._open: dict[str, Listener] = {}
        self.closed = False

    def is_full(self) -> bool:
        return len(self._open) >= MOST_STREAMS

    def open(self, identity: Identity) -> Listener:
        listener = Listener(secrets.token_hex(16), identity.token_id)
        self._open[listener.name] = listener
        if self.closed:
            listener.close()
        return listener

    def find(self, identity: Identity, name: str) -> Listener | None:
        listener = self._open.get(name)
        return listener if listener and listener.token_id == identity.token_id else None

    def watch(self, identity: Identity, name: str, job_id: JobId) -> bool:
        """Have a job told on a stream, from how it stands on; False where there is no stream."""
        listener = self.find(identity, name) if name else None
        if listener is None:
            return False
        self._forget(listener, job_id)
        feed = JobFeed(listener, job_id)
        if self._served.coordinator.watchers.add(feed):
            listener.jobs[job_id] = feed
        else:
            refused = unknown(self._served.coordinator.state, job_id)
            listener.tell(Missing(job_id, refused.code.value, refused.message))
        return True

    def unwatch(self, identity: Identity, name: str, job_id: JobId) -> None:
        """Have a job told no more. News of it may still be on its way."""
        listener = self.find(identity, name)
        if listener is not None:
            self._forget(listener, job_id)

    def _forget(self, listener: Listener, job_id: JobId) -> None:
        former = listener.jobs.pop(job_id, None)
        if former is not None:
            self._served.coordinator.watchers.remove(former)

    def drop(self, listener: Listener) -> None:
        self._open.pop(listener.name, None)
        listener.close()
        for feed in listener.jobs.values():
            self._served.coordinator.watchers.remove(feed)
        listener.jobs.clear()

    def close(self) -> None:
        """Let every listener go; whoever comes now is let go at once."""
        self.closed = True
        for listener in self._open.values():
            listener.close()

"""What a program asks of a coordinator, answered by the one of a rehearsal."""

import os
import weakref
from collections.abc import Callable
from typing import TypeVar, cast

from holdfast.client.errors import Closed
from holdfast.client.feed import FeedRef, JobFeed
from holdfast.client.health import DiskRoom, Health
from holdfast.client.local import Local
from holdfast.client.localworker import Offers
from holdfast.client.schedules_local import LocalSchedules
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.embedding import Embedded
from holdfast.coordinator.engine import Engine
from holdfast.coordinator.fitting import blank_seat
from holdfast.coordinator.seats import Worker as SeatedWorker
from holdfast.core.ids import JobId, Position, WorkerId
from holdfast.core.record import Record
from holdfast.testing.rehearsal.bodies import current_body
from holdfast.testing.rehearsal.errors import NothingLeft
from holdfast.testing.rehearsal.worker import MEMORY
from holdfast.testing.rehearsal.world import World
from holdfast.wal import FileLog
from holdfast.wire.exchange import Capacity

T = TypeVar("T")


class RehearsedFeed(JobFeed):
    """What is known of a job. Whoever waits for news makes time pass until they are there."""

    def __init__(self, job_id: JobId, world: World) -> None:
        super().__init__(job_id)
        self._world = world

    def wait_for(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        world, body = self._world, current_body()
        if body is not None:
            end_ms = 0 if timeout is None else world.now_ms() + round(timeout * 1_000)
            while not (ready() or (end_ms and world.now_ms() >= end_ms)):
                body.pause(until_ms=end_ms, is_ready=ready)
            return ready()
        end = None if timeout is None else world.now_ms() + round(timeout * 1_000)
        is_there = world.drive(ready, end)
        if not is_there and timeout is None:
            raise self._nothing_left()
        return is_there

    def call_on_change(self, callback: Callable[[], None]) -> None:
        """Somebody on an event loop is about to wait: let everything happen now. What has not come
        then never will."""
        self._world.drive(lambda: bool(self.state), None)
        self.error = None if self.state else self._nothing_left()
        super().call_on_change(callback)

    def drop_callback(self, callback: Callable[[], None]) -> None:
        self.error = None
        super().drop_callback(callback)

    def _nothing_left(self) -> NothingLeft:
        return NothingLeft(
            f"job {self.job_id} is not finished and nothing will happen any more; ask explain()"
        )


class Stage(Embedded):
    """The coordinator of a rehearsal, where an open folder has its own."""

    def __init__(self, world: World) -> None:
        self.results = world.results
        self.engine = cast(Engine, world)
        self._world = world
        self.take_over()

    def take_over(self) -> None:
        """The coordinator of now: another one after each crash."""
        service = self._world.service
        self.log = cast(FileLog, service.log)
        self.epoch = service.log.epoch
        self.coordinator = service.coordinator
        self.exchanges = service.exchanges
        self.stalls = service.stalls

    def read(self, position: Position) -> Record:
        return self._world.service.record(position)


class RehearsedBackend(Local):
    """Everything an open folder answers, in virtual time. Whatever returns is durable."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.closed = False
        self.world = world
        self.slots = world.cast.workers * world.cast.slots
        self.actor = "rehearsal"
        self._owner_pid = os.getpid()
        self._offers = Offers()
        self._feeds: weakref.WeakSet[RehearsedFeed] = weakref.WeakSet()
        self._stage = self._embedded = Stage(world)
        self.schedules = LocalSchedules(self.call, self.actor, self._check_scheduled)
        room = Capacity(self.slots, self.slots * 1_000, MEMORY, 0, world.cast.resources)
        self._seat = blank_seat(SeatedWorker(WorkerId("any"), 1, room))
        world.on_restart = self._meet_again

    def call(self, ask: Callable[[Coordinator], T]) -> T:
        self.check_open()
        if self.world.is_down and current_body() is None:
            # As any client does: ask until somebody answers.
            self.world.drive(lambda: not self.world.is_down, None)
        value = ask(self.world.service.coordinator)
        self.world.make_durable()
        return value

    def new_feed(self, job_id: JobId) -> JobFeed:
        feed = RehearsedFeed(job_id, self.world)
        self._feeds.add(feed)
        return feed

    def health(self) -> Health:
        """The invariants are checked after every step; there is no disk."""
        return Health(None, DiskRoom(0, 0, 0, 0, ""))

    def describe(self) -> str:
        return f"rehearsal {self.world.cast.workers} workers"

    def check_open(self) -> None:
        if self.closed:
            raise Closed("the rehearsal is over")

    def close(self, grace_ms: int) -> None:
        self.closed = True

    def _meet_again(self) -> None:
        """The coordinator is another one: tell it who waits for what."""
        self._stage.take_over()
        watchers = self.world.service.coordinator.watchers
        for feed in list(self._feeds):
            feed.mended()
            watchers.add(FeedRef(feed, self._unwatch))



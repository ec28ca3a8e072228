"""Who looks after the replicas of this worker while they run: asks them whether they are well,
what they take, and how their partitions stand.

It has a thread of its own with an event loop on it, started with the first replica, so that no
answer that is late holds up the exchange or another replica. What it finds goes into the book, and
what is past help into `condemned`; ending a process is not its business.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

from holdfast.core.ids import LeaseId
from holdfast.wire.service import EXEC, HTTP, LIVE, READY, START, Probe
from holdfast.wire.servicing import READY as IS_READY
from holdfast.wire.servicing import STARTING, UNREADY
from holdfast.worker.errands import Begun, Ended, Halt, Launch
from holdfast.worker.fates import ending
from holdfast.worker.health import PORT_PROBE, Tally
from holdfast.worker.partitions import ask_partitions
from holdfast.worker.probing import Unwell, ask_http, ask_tcp
from holdfast.worker.replica import Replica
from holdfast.worker.sampling import SAMPLE_MS, Meter
from holdfast.worker.servicebook import ServiceBook
from holdfast.worker.surroundings import Prepared, redacted

Aside = Callable[[Launch | Halt], None]
"""Have something run beside a replica; its end is told to `ended_aside`."""


class Condemned(Exception):
    """A replica is past help: the message says why."""


class Attendant:
    """The companion of the executor of commands. `meter` takes the samples."""

    def __init__(
        self,
        book: ServiceBook,
        wake: Callable[[], None],
        clock_ms: Callable[[], int],
        meter: Meter,
    ) -> None:
        self.condemned: deque[tuple[LeaseId, str]] = deque()
        self.aside: Aside = lambda _: None
        self._book = book
        self._wake = wake
        self._clock_ms = clock_ms
        self._meter = meter
        self._lock = threading.Lock()
        self._replicas: dict[LeaseId, Replica] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        # Of the loop's thread alone.
        self._tasks: dict[LeaseId, asyncio.Task[None]] = {}
        self._questions: dict[LeaseId, asyncio.Future[Ended]] = {}
        self._numbers = count(1)

    # What the executors say, each from its own thread.

    def expect(self, replica: Replica) -> None:
        """This one will be started."""
        self._replicas[replica.lease_id] = replica

    def prepared(self, prepared: Prepared) -> None:
        replica = self._replicas.get(prepared.launch.lease_id)
        if replica is not None:
            replica.prepared = prepared

    def begun(self, begun: Begun) -> None:
        replica = self._replicas.get(begun.lease_id)
        if replica is not None:
            replica.pid = begun.pid
            self._say(self._begin, replica)

    def ended_aside(self, ended: Ended) -> None:
        self._say(self._hear, ended)

    def leave(self, lease_id: LeaseId) -> None:
        """Ask this one nothing more: it is ending, or has ended."""
        if self._replicas.pop(lease_id, None) is not None:
            self._say(self._let_go, lease_id)

    def bury(self, lease_id: LeaseId) -> None:
        """This one has ended: what an answer that was still under way said of it goes as well."""
        self.leave(lease_id)
        self._say(self._book.forget, lease_id)

    def close(self) -> None:
        with self._lock:
            loop, thread = self._loop, self._thread
            self._replicas.clear()
            if loop is not None:
                loop.call_soon_threadsafe(loop.stop)
                self._loop = None
        if thread is not None:
            thread.join()

    def _say(self, act: Callable[[Any], None], about: object) -> None:
        with self._lock:
            if self._loop is None and self._replicas:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._attend, args=(self._loop,), name="holdfast-services", daemon=True
                )
                self._thread.start()
            if self._loop is not None:
                self._loop.call_soon_threadsafe(act, about)

    # On the loop.

    def _attend(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        sampling = loop.create_task(self._sample())
        try:
            loop.run_forever()
            for task in (sampling, *self._tasks.values()):
                task.cancel()
            left = asyncio.gather(sampling, *self._tasks.values(), return_exceptions=True)
            loop.run_until_complete(left)
        finally:
            loop.close()

    def _begin(self, replica: Replica) -> None:
        if replica.lease_id in self._replicas and replica.lease_id not in self._tasks:
            self._meter.begin(replica, self._clock_ms())
            self._note(replica, STARTING, "")
            self._tasks[replica.lease_id] = asyncio.create_task(self._look_after(replica))

    def _let_go(self, lease_id: LeaseId) -> None:
        self._meter.end(lease_id)
        task = self._tasks.pop(lease_id, None)
        if task is not None:
            task.cancel()

    def _hear(self, ended: Ended) -> None:
        question = self._questions.pop(ended.lease_id, None)
        if question is not None and not question.done():
            question.set_result(ended)

    async def _look_after(self, replica: Replica) -> None:
        """Until it is past help, or nobody asks for it any more."""
        plan = replica.plan
        try:
            if plan.start is not None:
                await self._until_started(replica, plan.start)
            watching: list[Coroutine[Any, Any, None]] = []
            ready = plan.ready or (PORT_PROBE if plan.ports else None)
            if ready is None:
                self._note(replica, IS_READY, "")
            else:
                watching.append(self._watch_ready(replica, ready))
            if plan.live is not None:
                watching.append(self._watch_live(replica, plan.live))
            if plan.partitions is not None:
                watching.append(self._watch_partitions(replica, plan.partitions))
            async with asyncio.TaskGroup() as group:
                for each in watching:
                    group.create_task(each)
        except* Condemned as found:
            why = str(found.exceptions[0])
            self._note(replica, UNREADY, why)
            self.condemned.append((replica.lease_id, why))
            self._wake()

    async def _until_started(self, replica: Replica, probe: Probe) -> None:
        tally = Tally(probe, self._clock_ms(), is_eager=True)
        while not tally.is_well:
            why = await self._ask(replica, START, tally)
            if tally.is_well is False:
                raise Condemned(f"start probe failed: {why}")
            if why:
                self._note(replica, STARTING, f"start probe: {why}")

    async def _watch_ready(self, replica: Replica, probe: Probe) -> None:
        tally = Tally(probe, self._clock_ms(), is_eager=True)
        was_ready = False
        while True:
            why = await self._ask(replica, READY, tally)
            if tally.is_well:
                was_ready = True
                self._note(replica, IS_READY, "")
            elif why or was_ready:
                state = UNREADY if was_ready else STARTING
                self._note(replica, state, f"ready probe: {why}" if why else "")

    async def _watch_live(self, replica: Replica, probe: Probe) -> None:
        tally = Tally(probe, self._clock_ms(), is_eager=False)
        while True:
            why = await self._ask(replica, LIVE, tally)
            if tally.is_well is False:
                raise Condemned(f"live probe failed: {why}")

    async def _watch_partitions(self, replica: Replica, probe: Probe) -> None:
        tally = Tally(probe, self._clock_ms(), is_eager=True)
        while True:
            await asyncio.sleep(max(0, tally.due_ms() - self._clock_ms()) / 1_000)
            asked_ms = self._clock_ms()
            news = await ask_partitions(replica, probe)
            is_told = not news.problem
            tally.heard(is_content=is_told, asked_ms=asked_ms, now_ms=self._clock_ms())
            # Of one that is not ready nobody expects an answer.
            if is_told or self._book.state_of(replica.lease_id) == IS_READY:
                self._book.add_partitions(news, asked_ms)
                self._wake()

    async def _ask(self, replica: Replica, name: str, tally: Tally) -> str:
        """Wait until it is time, and ask; what was wrong with the answer, if anything."""
        await asyncio.sleep(max(0, tally.due_ms() - self._clock_ms()) / 1_000)
        asked_ms, why = self._clock_ms(), ""
        try:
            await self._answer(replica, name, tally.probe)
        except Unwell as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it was not content
            why = f"{tally.probe.kind}: it could not be asked: {error}"
        tally.heard(is_content=not why, asked_ms=asked_ms, now_ms=self._clock_ms())
        return why

    async def _answer(self, replica: Replica, name: str, probe: Probe) -> None:
        if probe.kind == EXEC:
            await self._ask_exec(replica, name, probe)
        elif probe.kind == HTTP:
            port = replica.port_of(probe.port)
            await ask_http(replica.host, port, probe.path, probe.timeout_ms)
        else:
            await ask_tcp(replica.host, replica.port_of(probe.port), probe.timeout_ms)

    async def _ask_exec(self, replica: Replica, name: str, probe: Probe) -> None:
        """The warden runs it, as it runs the replica: nothing of it is left behind either."""
        number = LeaseId(-next(self._numbers))
        program = probe.argv[0]
        answer: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._questions[number] = answer
        try:
            self.aside(replica.question(number, name, probe))
            async with asyncio.timeout(probe.timeout_ms / 1_000):
                ended = await answer
        except TimeoutError:
            told = f"exec {program}: no answer within {probe.timeout_ms / 1_000:g} s"
            raise Unwell(told) from None
        except OSError as error:
            raise Unwell(f"exec {program}: {error}") from None
        finally:
            if self._questions.pop(number, None) is not None:
                self.aside(Halt(number, 0))
        if ended.code != 0:
            how = f"could not be started: {ended.error}"
            if ended.code is not None:
                how = ending(ended.code)
            last = ended.last_words.rpartition("\n")[2]
            raise Unwell(f"exec {program} {how}{': ' if last else ''}{last}")

    def _note(self, replica: Replica, state: str, why: str) -> None:
        secrets = replica.prepared.secrets if replica.prepared else ()
        if self._book.note(replica.news(state, redacted(why, secrets))):
            self._wake()

    # What they take.

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_MS / 1_000)
            wanted, scraped = list(self._tasks), self._book.scraped
            found = await asyncio.gather(
                *(
                    self._meter.sample(lease_id, self._clock_ms, is_scraped=lease_id in scraped)
                    for lease_id in wanted
                )
            )
            for sample in filter(None, found):
                self._book.add(sample, self._clock_ms())
            if wanted:
                self._wake()

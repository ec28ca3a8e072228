"""Coordinator, log and local workers in this program, wired together."""

import os
from collections.abc import Callable
from functools import partial
from logging import getLogger
from pathlib import Path
from typing import Any, TypeVar

from msgspec import convert

from holdfast.client.backend import Decode, Fed, Found
from holdfast.client.bundles import Bundle
from holdfast.client.desks_local import LocalDesks
from holdfast.client.errors import Closed, Refused, refused
from holdfast.client.feed import FeedRef, JobFeed
from holdfast.client.foreseen import Foreseen
from holdfast.client.health import Health
from holdfast.client.health_local import local_health
from holdfast.client.kept import kept_output
from holdfast.client.leaving import Leaving
from holdfast.client.localworker import LocalWorker, MakeExecutor, Offers, check_fits, monotonic_ms
from holdfast.client.logged import LoggedOutcomes
from holdfast.client.pending import Pending
from holdfast.client.schedules_local import LocalSchedules
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.crews import LiveCrew
from holdfast.coordinator.embedding import SNAPSHOT_PATIENCE_S, open_embedded
from holdfast.coordinator.fitting import blank_seat
from holdfast.coordinator.foreseeing import foreseen
from holdfast.coordinator.seats import Worker
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.views import attempts_made
from holdfast.core import commands as c
from holdfast.core.decide.jobs import unknown
from holdfast.core.decision import Accepted
from holdfast.core.decision import Refused as RefusedDecision
from holdfast.core.ids import Index, Instant, JobId, Position
from holdfast.core.job import job_state
from holdfast.core.record import Record
from holdfast.core.spec import JobSpec
from holdfast.core.transactions import Transaction, transaction_of
from holdfast.wire.bodies import Edits
from holdfast.wire.exchange import Capacity
from holdfast.wire.output import Output
from holdfast.wire.specs import edited
from holdfast.worker.agent import Agent
from holdfast.worker.bearings import LOCAL_WORKER
from holdfast.worker.leftovers import Leftovers
from holdfast.worker.parcels import Parcels
from holdfast.worker.results import Place
from holdfast.worker.staging import Bench

T = TypeVar("T")


log = getLogger("holdfast")

STAGED_FOLDER = "staged"


class Local(LocalDesks):
    """An open folder. Every call goes through the engine's thread and comes back durable."""

    def __init__(
        self,
        path: Path,
        make_executor: MakeExecutor,
        slots: int,
        settings: Settings,
        offers: Offers = Offers(),  # noqa: B008 - a value, never changed
    ) -> None:
        self.path = path
        self._offers = offers
        self.slots = slots
        self.closed = False
        self._owner_pid = os.getpid()
        self.actor = f"process:{self._owner_pid}"
        self.schedules = LocalSchedules(self.call, self.actor, self._check_scheduled)
        self._embedded = open_embedded(path, settings)
        try:
            self._employ(make_executor)
        except BaseException:
            # Nobody gets to close what was never opened.
            self._embedded.log.close()
            raise

    def _employ(self, make_executor: MakeExecutor) -> None:
        engine, slots = self._embedded.engine, self.slots
        wake = partial(engine.post, _nothing)
        results = self._embedded.results
        place = Place(
            str(results.contents.folder.absolute()), largest_bytes=results.largest_bytes
        )
        staged = self.path.absolute() / STAGED_FOLDER
        bench = Bench(str(staged))
        self.executor = make_executor(slots, wake, monotonic_ms, results=place, bench=bench)
        make_deliverer = self._offers.deliverer
        parcels = Parcels(make_deliverer and make_deliverer(wake, monotonic_ms), Leftovers(staged))
        memory = _memory_bytes()
        capacity = Capacity(slots, slots * 1_000, memory, 0, self._offers.resources)
        epoch, hello = self._embedded.epoch, self._offers.hello()
        self._agent = Agent(
            LOCAL_WORKER, epoch, self.executor, capacity, hello=hello, parcels=parcels
        )
        self._seat = blank_seat(Worker(LOCAL_WORKER, epoch, capacity, hello=hello))
        self._worker = LocalWorker(self._agent, self._embedded)
        engine.hooks.insert(0, self._worker)
        self.executor.start()
        engine.start()
        engine.post(_nothing)

    def call(self, ask: Callable[[Coordinator], T]) -> T:
        """Run `ask` on the coordinator's thread; its answer, once all it saw is durable."""
        self.check_open()
        pending: Pending[T] = Pending()
        coordinator = self._embedded.coordinator

        def work() -> None:
            try:
                # Asked here, in turn: whoever came before the news has been told by it.
                if self._worker.fatal is not None:
                    raise self._worker.fatal
                value = ask(coordinator)
            except Exception as error:  # noqa: BLE001 - it belongs to the caller, not to the engine
                pending.fail(error)
                return
            coordinator.answer(lambda: pending.succeed(value), pending.fail)

        self._embedded.engine.post(work)
        return pending.get()

    def execute(self, command: c.Command) -> Any:
        """The answer of an accepted command; a refusal is raised."""
        return _accepted(
            self.call(lambda coordinator: coordinator.execute(command, actor=self.actor))
        ).answer

    # What a program asks.

    @property
    def silence_s(self) -> float | None:
        return None

    def describe(self) -> str:
        if self.closed:
            return f"{self.path} closed"
        stuck = len(self.executor.lingering())
        lost = f", {stuck} occupied by attempts that were given up" if stuck else ""
        return f"{self.path} {self.slots} workers{lost}"

    def bundle(self, folder: str | os.PathLike[str]) -> Bundle:
        raise Refused(
            "invalid",
            "a bundle brings code to workers of a server; those of a folder import what this "
            "program does",
        )

    def health(self) -> Health:
        return local_health(self._embedded.checker, self._embedded.room)

    def submit(self, request: c.SubmitJob, *, must_fit: bool = False) -> JobFeed:
        """Record the job and begin to watch it, in one turn of the coordinator."""
        count = len(request.items) or request.count
        check_fits(self._seat, request.spec, count, must_fit=must_fit)
        feed = self.new_feed(JobId(""))

        def ask(coordinator: Coordinator) -> Accepted | RefusedDecision:
            decision = coordinator.execute(request, actor=self.actor)
            if not isinstance(decision, RefusedDecision):
                feed.job_id = JobId(str(decision.answer))
                coordinator.watchers.add(FeedRef(feed, self._unwatch))
            return decision

        _accepted(self.call(ask))
        return feed

    def foresee(self, request: c.SubmitJob, *, must_fit: bool = False) -> Foreseen:
        count = len(request.items) or request.count
        check_fits(self._seat, request.spec, count, must_fit=must_fit)
        exchanges = self._embedded.exchanges
        told = self.call(lambda k: foreseen(k, LiveCrew(k.state, exchanges), request))
        if isinstance(told, RefusedDecision):
            raise Refused(told.code, told.message)
        return convert(told, Foreseen)

    def new_feed(self, job_id: JobId) -> JobFeed:
        """What handles to one job share."""
        return JobFeed(job_id)

    def find(self, job_id: JobId) -> Found:
        feed = self.new_feed(job_id)

        def ask(coordinator: Coordinator) -> JobSpec | RefusedDecision:
            if not coordinator.watchers.add(FeedRef(feed, self._unwatch)):
                return unknown(coordinator.state, feed.job_id)
            return coordinator.state.jobs[feed.job_id].spec

        found = self.call(ask)
        if isinstance(found, RefusedDecision):
            raise Refused(found.code, found.message.replace("--data DIR", f"--data {self.path}"))
        return Found(feed, found.kind, found.target)

    def state_of(self, job_id: JobId) -> str:
        def ask(coordinator: Coordinator) -> str | None:
            job = coordinator.state.jobs.get(job_id)
            return None if job is None else job_state(job).value

        found = self.call(ask)
        if found is None:
            raise Refused("gone", f"job {job_id} left memory; `holdfast job show` reads the log")
        return found

    def fed(self, job_id: JobId) -> Fed:
        def ask(coordinator: Coordinator) -> Fed:
            job = coordinator.state.jobs[job_id]
            return Fed(job.count, job.digest, job.sealed, bool(job.cause))

        return self.call(ask)

    def add_items(self, job_id: JobId, first: int, items: tuple[bytes, ...], digest: bytes) -> None:
        self.execute(c.AddTasks(job_id=job_id, first=first, items=items, digest=digest))

    def seal(self, job_id: JobId, count: int, *, interrupted: bool) -> None:
        self.execute(c.SealJob(job_id=job_id, count=count, interrupted=interrupted))

    def still_feeding(self, job_id: JobId) -> None:
        """Feeder and coordinator are one program: neither can miss the other."""

    def cancel_job(self, job_id: JobId, reason: str) -> bool:
        return bool(self.execute(c.KillJob(job_id=job_id, reason=reason)))

    def cancel_task(self, job_id: JobId, index: Index, reason: str) -> bool:
        return bool(self.execute(c.KillTasks(job_id=job_id, indices=(index,), reason=reason)))

    def retry(self, job_id: JobId, indices: tuple[Index, ...], edits: Edits | None) -> int:
        def ask(coordinator: Coordinator) -> Accepted | RefusedDecision:
            job = coordinator.state.jobs.get(job_id)
            spec = None if job is None or edits is None else edited(job.spec, edits)
            command = c.RetryTasks(job_id=job_id, indices=indices, spec=spec)
            return coordinator.execute(command, actor=self.actor)

        sent = _accepted(self.call(ask)).answer
        return sent if isinstance(sent, int) else 0

    def reschedule(
        self, job_id: JobId, index: Index, *, delay_ms: int, not_before_wall: int
    ) -> None:
        self.execute(
            c.RescheduleTask(
                job_id=job_id,
                index=index,
                delay_ms=delay_ms,
                not_before_wall=Instant(not_before_wall),
            )
        )

    def outcomes(
        self, feed: JobFeed, decode: Decode, *, return_exceptions: bool = False
    ) -> LoggedOutcomes:
        return LoggedOutcomes(
            self._record,
            self._embedded.results.contents,
            feed.job_id,
            decode,
            return_exceptions=return_exceptions,
        )

    def attempts_of(self, job_id: JobId, index: Index) -> int:
        def ask(coordinator: Coordinator) -> int | None:
            job = coordinator.state.jobs.get(job_id)
            return None if job is None or index >= job.count else attempts_made(job, index)

        found = self.call(ask)
        if found is None:
            raise Refused("not_found", f"there is no task {job_id}/{index}")
        return found

    def output(
        self, job_id: JobId, index: Index, attempt: int, stream: str, offset: int
    ) -> Output:
        self.check_open()
        return kept_output(self._embedded.log.path, job_id, index, attempt, stream, offset)

    def transactions(self, limit: int) -> list[Transaction]:
        last = self.call(lambda coordinator: coordinator.state.position)
        first = max(self._embedded.log.oldest, last - max(limit, 0) + 1)
        return [
            transaction_of(self._record(Position(place)), Position(place))
            for place in range(first, last + 1)
        ]

    def refusals(self) -> dict[str, int]:
        return self.call(lambda coordinator: dict(coordinator.refusals))

    def resume(self, reason: str) -> bool:
        def ask(coordinator: Coordinator) -> bool:
            was = bool(coordinator.state.suspended)
            _accepted(coordinator.execute(c.ResumeLog(), actor=self.actor, reason=reason))
            return was

        return self.call(ask)

    # Whether it may be asked, and the end of it.

    def _check_scheduled(self, spec: JobSpec) -> None:
        check_fits(self._seat, spec, 1)

    def _unwatch(self, ref: FeedRef) -> None:
        """Called by whoever drops the last handle, at whatever moment. Never raises."""
        if not self.closed and not self.is_foreign():
            watchers = self._embedded.coordinator.watchers
            self._embedded.engine.post(lambda: watchers.remove(ref))

    def _record(self, position: Position) -> Record:
        """A record of the log, wherever it is kept."""
        self.check_open()
        return self._embedded.read(position)

    def is_foreign(self) -> bool:
        """Whether this is a forked copy, which owns neither the folder nor any thread."""
        return os.getpid() != self._owner_pid

    def check_waitable(self, ended: str) -> None:
        """Waiting makes sense while somebody works, or when there is nothing to wait for."""
        if not ended or self.is_foreign():
            self.check_open()

    def check_open(self) -> None:
        if self.is_foreign():
            raise Closed(
                f"{self.path} was opened by process {self._owner_pid}; a forked copy cannot use "
                f"it. To share it, run `holdfast serve --data {self.path}` and use "
                "holdfast.connect()."
            )
        if self.closed:
            raise self._closed()

    def _closed(self) -> Closed:
        return Closed(f"{self.path} was closed; open it again to go on")

    def close(self, grace_ms: int) -> None:
        """Stop granting, wait for what runs, release the rest without charge, let the folder go."""
        if self.closed or self.is_foreign():
            return
        self.closed = True
        patience_s = 0.0
        leaving = Leaving(self._embedded, self._agent)
        try:
            leaving.wait(grace_ms)
            patience_s = SNAPSHOT_PATIENCE_S
        finally:
            # A second Ctrl-C cuts the waiting short, never the orderly end.
            leaving.let_go()
            self._embedded.close(self._agent.is_idle, self._closed(), patience_s)


def _accepted(decision: Accepted | RefusedDecision) -> Accepted:
    if isinstance(decision, RefusedDecision):
        raise refused(decision.code, decision.message)
    return decision


def _nothing() -> None:
    """Something to post when only a turn of the engine is wanted."""


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

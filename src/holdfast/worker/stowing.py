"""Large results are brought to the server before anybody is told that their tasks have ended.

An attempt whose result is on its way is still held, and its lease is renewed like that of one that
runs; its slot is free already. A server that is away is asked again for as long as somebody waits.
What was brought is kept here until the commit is answered: a server that no longer has it, says so,
and is brought it again.
"""

import asyncio
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import BinaryIO, Final, Protocol

from holdfast.core.ids import LeaseId
from holdfast.core.owed import Stored
from holdfast.wire.answers import NOT_NOW
from holdfast.wire.exchange import (
    NOT_STORED,
    Done,
    Exchange,
    Failed,
    Lingering,
    Released,
    Reply,
    Run,
)
from holdfast.wire.http import FIRST_PAUSE_S, LONGEST_PAUSE_S, Rejected, Unreachable
from holdfast.worker.executor import Executor, Harvest, Running
from holdfast.worker.remote import Carry
from holdfast.worker.results import Spool
from holdfast.worker.troubles import ERROR_BYTES_MAX, bounded

RESULTS: Final = "/api/v1/results"
CARRIERS: Final = 2
"""How many results are brought at once: more would only share the same wire."""


class Carrier(Protocol):
    """What `wire.http` does for us."""

    def head(self, path: str) -> None: ...

    def upload(self, path: str, content: BinaryIO, size: int) -> None: ...


class StowedExecutor:
    """See `holdfast.worker.executor.Executor` for what each method owes."""

    def __init__(
        self, inside: Executor, spool: Spool, http: Carrier, wake: Callable[[], None]
    ) -> None:
        self.slots = inside.slots
        self._inside = inside
        self._spool = spool
        self._http = http
        self._wake = wake
        # Those on their way, and those that were brought and whose commits are not answered.
        self._carried: dict[LeaseId, Done] = {}
        self._brought: set[LeaseId] = set()
        # Those that commit early: their attempts wait meanwhile, and go on when they have.
        self._early: set[LeaseId] = set()
        self._tasks: SimpleQueue[Done | None] = SimpleQueue()
        self._ended: deque[Done | Failed] = deque()
        self._threads: list[threading.Thread] = []
        self._closed = threading.Event()
        spool.clear()

    @property
    def fatal(self) -> str | None:
        return self._inside.fatal

    @property
    def fatal_kind(self) -> str | None:
        return self._inside.fatal_kind

    def start(self) -> None:
        self._inside.start()

    def assign(self, run: Run) -> None:
        self._inside.assign(run)

    def harvest(self) -> Harvest:
        return self._passed_on(self._inside.harvest())

    def running(self) -> list[Running]:
        return self._inside.running()

    def recall(self, lease_ids: frozenset[LeaseId]) -> None:
        self._inside.recall(lease_ids)

    def stop(self, lease_id: LeaseId, grace_ms: int | None = None) -> None:
        if self._carried.pop(lease_id, None) is not None:
            self._spool.drop(lease_id)
            if lease_id not in self._early:
                return
            self._early.discard(lease_id)
        self._inside.stop(lease_id, grace_ms)

    def cut_off(self, lease_id: LeaseId, grace_ms: int) -> None:
        self._inside.cut_off(lease_id, grace_ms)

    def drain(self) -> None:
        self._inside.drain()

    def answer(self, lease_id: LeaseId, why: str) -> None:
        self._inside.answer(lease_id, why)

    def hold_until(self, ends_ms: int, kill_ms: int) -> None:
        self._inside.hold_until(ends_ms, kill_ms)

    def lingering(self) -> tuple[Lingering, ...]:
        return self._inside.lingering()

    def close(self, grace_ms: int) -> Harvest:
        """What could not be brought in time is given back: it ran, and nobody has its result."""
        whole = self._passed_on(self._inside.close(grace_ms))
        self._closed.set()
        for _ in self._threads:
            self._tasks.put(None)
        whole.released.extend(
            Released(done.job_id, done.index, done.lease_id, True)
            for done in self._carried.values()
        )
        self._carried.clear()
        return whole

    # What becomes of what was brought.

    def carrying(self, carry: Carry) -> Carry:
        """The same, but that a server which no longer has a result is brought it again, and that
        what it has committed is not kept here any longer."""

        async def carried(exchange: Exchange, answer_s: float) -> Reply:
            try:
                reply = await carry(exchange, answer_s)
            except Rejected as no:
                if no.problem.code != NOT_STORED:
                    raise
                await asyncio.to_thread(self._bring_again, exchange.done)
                reply = await carry(exchange, answer_s)
            self._answered(exchange, reply)
            return reply

        return carried

    def _bring_again(self, reports: Iterable[Done]) -> None:
        for report in reports:
            if report.stored is not None and report.lease_id in self._brought:
                self._upload(report.lease_id, report.stored)

    def _answered(self, exchange: Exchange, reply: Reply) -> None:
        """Nobody asks again for results that were told in an answered exchange, but for those the
        coordinator only keeps: they may have to be told to another."""
        if self._brought:
            kept = frozenset(reply.kept)
            told = {report.lease_id for report in exchange.done} - kept
            over = {verdict.lease_id for verdict in (*reply.verdicts, *reply.stops)}
            for lease_id in self._brought & (told | over):
                self._brought.discard(lease_id)
                self._spool.drop(lease_id)

    # Carrying.

    def _passed_on(self, harvest: Harvest) -> Harvest:
        """What ended, but for results that must be brought first, and with those that were."""
        self._early.update(done.lease_id for done in harvest.early if done.stored is not None)
        for reports in (harvest.done, harvest.early):
            if any(done.stored is not None for done in reports):
                for done in reports:
                    if done.stored is not None:
                        self._carry(done)
                reports[:] = [done for done in reports if done.stored is None]
        while self._ended:
            self._take_in(self._ended.popleft(), harvest)
        return harvest

    def _take_in(self, ended: Done | Failed, harvest: Harvest) -> None:
        is_early = ended.lease_id in self._early
        self._early.discard(ended.lease_id)
        if self._carried.pop(ended.lease_id, None) is None:
            self._spool.drop(ended.lease_id)
        elif isinstance(ended, Done):
            self._brought.add(ended.lease_id)
            (harvest.early if is_early else harvest.done).append(ended)
        else:
            self._spool.drop(ended.lease_id)
            harvest.failed.append(ended)
            if is_early:
                # The attempt still runs, and hears of it as of a commit that was refused.
                self._inside.answer(ended.lease_id, ended.error)

    def _carry(self, done: Done) -> None:
        self._carried[done.lease_id] = done
        self._tasks.put(done)
        if len(self._threads) < CARRIERS:
            thread = threading.Thread(target=self._work, name="holdfast-stow", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        while (done := self._tasks.get()) is not None:
            ended = self._bring(done)
            if ended is not None:
                self._ended.append(ended)
                self._wake()

    def _bring(self, done: Done) -> Done | Failed | None:
        """What the attempt came to, once the server has its result or will not have it; None where
        nobody waits for it any more."""
        pause = FIRST_PAUSE_S
        while done.lease_id in self._carried and not self._closed.is_set():
            try:
                if done.stored is not None:
                    self._upload(done.lease_id, done.stored)
                return done
            except Unreachable:
                # Full jitter: a thousand workers must not come back in step.
                self._closed.wait(random.uniform(0, pause))  # noqa: S311
                pause = min(pause * 2, LONGEST_PAUSE_S)
            except Rejected as no:
                if no.problem.status not in NOT_NOW:
                    return _failed(done, f"the server does not take its result: {no}")
                self._closed.wait(random.uniform(0, pause))  # noqa: S311
                pause = min(pause * 2, LONGEST_PAUSE_S)
            except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
                told = f"this worker could not bring its result to the server: {error}"
                return _failed(done, told, "worker_lost")
        return None

    def _upload(self, lease_id: LeaseId, stored: Stored) -> None:
        path = f"{RESULTS}/{stored.digest.hex()}"
        try:
            self._http.head(path)
        except Rejected:
            # It is not there; whatever else is wrong, this will tell.
            with self._spool.opened(lease_id) as content:
                self._http.upload(path, content, stored.size)


def _failed(done: Done, error: str, reason: str = "failed") -> Failed:
    told = bounded(error, ERROR_BYTES_MAX)
    return Failed(done.job_id, done.index, done.lease_id, done.ran_ms, reason, told, "", None)

"""Tasks that need a bundle wait here until it is unpacked; all others pass straight through.

A bundle that cannot be had fails the attempts that wait for it. Where that is the bundle's own
fault the task is charged with a failure, which another attempt would only repeat; where it is this
machine's, with a loss, and the task may find a better one. A server that is away is neither: it is
asked again for as long as somebody waits.
"""

import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct, structs

from holdfast.core.ids import LeaseId
from holdfast.wire.exchange import Item, Lingering, Released, Run
from holdfast.wire.http import FIRST_PAUSE_S, LONGEST_PAUSE_S, Unreachable
from holdfast.worker.bundles import BundleCache, Closed
from holdfast.worker.executor import Executor, Harvest, Running, merge
from holdfast.worker.lanes import Outcome, failed
from holdfast.worker.troubles import ERROR_BYTES_MAX, Trouble, bounded
from holdfast.worker.unpacking import BadBundle

SHORT: Final = 12


class Brought(Struct, frozen=True):
    """What came of bringing a bundle: it is held, unless there is an `error`."""

    digest: str
    error: str = ""
    reason: str = ""


class SuppliedExecutor:
    """See `holdfast.worker.executor.Executor` for what each method owes. The executor inside finds
    a bundle in the folder of the cache, under its digest."""

    def __init__(self, inside: Executor, cache: BundleCache, wake: Callable[[], None]) -> None:
        self.slots = inside.slots
        self._inside = inside
        self._cache = cache
        self._wake = wake
        self._waiting: dict[str, list[Run]] = {}
        # What each lease inside uses, and those given up that may still be running.
        self._used: dict[LeaseId, str] = {}
        self._given_up: set[LeaseId] = set()
        self._users: Counter[str] = Counter()
        self._brought: deque[Brought] = deque()
        self._harvest = Harvest([], [], [])
        self._closed = threading.Event()

    @property
    def fatal(self) -> str | None:
        return self._inside.fatal

    @property
    def fatal_kind(self) -> str | None:
        return self._inside.fatal_kind

    def start(self) -> None:
        self._inside.start()

    def assign(self, run: Run) -> None:
        digest = run.bundle
        if not digest:
            self._inside.assign(run)
        elif self._users[digest]:
            self._give(run)
        elif digest in self._waiting:
            self._waiting[digest].append(run)
        else:
            self._waiting[digest] = [run]
            threading.Thread(
                target=self._bring, args=(digest,), name="holdfast-bundle", daemon=True
            ).start()

    def harvest(self) -> Harvest:
        while self._brought:
            self._take_up(self._brought.popleft())
        whole, self._harvest = self._harvest, Harvest([], [], [])
        merge(whole, self._inside.harvest())
        if self._used:
            # It has told its result, and uses its bundle until it has ended.
            early = (done.lease_id for done in whole.early)
            self._given_up.update(lease_id for lease_id in early if lease_id in self._used)
            reports: list[Outcome] = [*whole.done, *whole.failed, *whole.released]
            for report in reports:
                self._given_up.discard(report.lease_id)
                self._forget(report.lease_id)
        if self._given_up:
            lingering = {attempt.lease_id for attempt in self._inside.lingering()}
            for lease_id in self._given_up - lingering:
                self._forget(lease_id)
            self._given_up &= lingering
        return whole

    def running(self) -> list[Running]:
        return self._inside.running()

    def recall(self, lease_ids: frozenset[LeaseId]) -> None:
        self._harvest.released.extend(
            Released(run.job_id, item.index, item.lease_id, False)
            for run, item in self._withdraw(lease_ids)
        )
        self._inside.recall(lease_ids)

    def stop(self, lease_id: LeaseId, grace_ms: int | None = None) -> None:
        if self._withdraw((lease_id,)):
            return
        if lease_id in self._used:
            # It may take a while to end, and uses its bundle until then.
            self._given_up.add(lease_id)
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
        self._closed.set()
        self._cache.close()
        waiting = [
            item.lease_id for runs in self._waiting.values() for r in runs for item in r.items
        ]
        self.recall(frozenset(waiting))
        whole, self._harvest = self._harvest, Harvest([], [], [])
        merge(whole, self._inside.close(grace_ms))
        for lease_id in list(self._used):
            self._forget(lease_id)
        while self._brought:
            self._take_up(self._brought.popleft())
        return whole

    # Bundles.

    def _bring(self, digest: str) -> None:
        """A thread of its own: until the bundle is held, or cannot be."""
        pause = FIRST_PAUSE_S
        while not self._closed.is_set():
            try:
                self._cache.hold(digest)
            except Unreachable:
                # Full jitter: a thousand workers must not come back in step.
                self._closed.wait(random.uniform(0, pause))  # noqa: S311
                pause = min(pause * 2, LONGEST_PAUSE_S)
                continue
            except Closed:
                return
            except BadBundle as error:
                self._tell(
                    Brought(digest, f"the bundle {digest[:SHORT]} is bad: {error}", "failed")
                )
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
                told = f"this worker could not unpack the bundle {digest[:SHORT]}: {error}"
                self._tell(Brought(digest, told, "worker_lost"))
                return
            self._tell(Brought(digest))
            return

    def _tell(self, brought: Brought) -> None:
        self._brought.append(brought)
        self._wake()

    def _take_up(self, brought: Brought) -> None:
        runs = self._waiting.pop(brought.digest, [])
        if brought.error:
            trouble = Trouble(bounded(brought.error, ERROR_BYTES_MAX), "", None)
            self._harvest.failed.extend(
                failed((run, item), 0, trouble, brought.reason)
                for run in runs
                for item in run.items
            )
            return
        # Held once for all that use it.
        self._users[brought.digest] = 1
        for run in runs:
            self._give(run)
        self._let_go(brought.digest)

    def _give(self, run: Run) -> None:
        self._users[run.bundle] += len(run.items)
        self._used.update((item.lease_id, run.bundle) for item in run.items)
        self._inside.assign(run)

    def _forget(self, lease_id: LeaseId) -> None:
        digest = self._used.pop(lease_id, None)
        if digest is not None:
            self._let_go(digest)

    def _let_go(self, digest: str) -> None:
        self._users[digest] -= 1
        if not self._users[digest]:
            del self._users[digest]
            self._cache.let_go(digest)

    def _withdraw(self, lease_ids: Iterable[LeaseId]) -> list[tuple[Run, Item]]:
        """Take those out that still wait for their bundle."""
        wanted = frozenset(lease_ids)
        found: list[tuple[Run, Item]] = []
        for digest, runs in self._waiting.items():
            found += [(run, item) for run in runs for item in run.items if item.lease_id in wanted]
            left = [
                structs.replace(run, items=items)
                for run in runs
                if (items := tuple(item for item in run.items if item.lease_id not in wanted))
            ]
            self._waiting[digest] = left
        return found

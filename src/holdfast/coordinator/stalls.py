"""Looks for what hangs while work goes on, and sets right what may be set right by itself.

Nothing about a stall is recorded but the end of the attempt that hung. What is found follows from
the state and from what workers said last; both are looked at again and again, a portion a turn.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.crews import LiveCrew
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.foresight import Foresight
from holdfast.coordinator.lines import say
from holdfast.coordinator.seats import Worker
from holdfast.coordinator.settings import AUTO, Settings
from holdfast.core import commands as c
from holdfast.core.decision import Accepted
from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId, WorkerId
from holdfast.core.lease import Holder
from holdfast.core.owed import BLOCK, DELIVERING, READY
from holdfast.core.task import Task
from holdfast.scheduler.owing import called
from holdfast.scheduler.reasons import span
from holdfast.scheduler.stalls import (
    MEANINGS,
    Held,
    Stall,
    attempt_stall,
    deadlocks,
    left_waiting,
    stuck_sink,
)

ACTOR: Final = "stalls"
PORTION: Final = 5_000
"""So many leases are looked at before others have their turn."""
DEBTS_MOST: Final = 20_000
SHORTEST_MS: Final = 1_000
LONGEST_MS: Final = 60_000
LOOKS_A_TIMEOUT: Final = 10

RECOVERED: Final = "recovered"
MOVED_ON: Final = "moved_on"
NOT_STALLED: Final = "not_stalled"
NOT_RECOVERABLE: Final = "not_recoverable"

Memory = dict[tuple[object, ...], Instant]
"""Since when something is so that no record tells of."""


class Outcome(Struct, frozen=True):
    """What became of a stall that somebody wanted recovered, and what to type where nothing did."""

    id: str
    outcome: str
    command: str = ""


class Stalls:
    """A hook on the engine. `found` is what hangs, by id, as of the last look; `recovered` counts
    what was set right since the start, by kind."""

    def __init__(
        self, coordinator: Coordinator, exchanges: Exchanges, settings: Settings
    ) -> None:
        self.found: dict[str, Stall] = {}
        self.recovered: Counter[str] = Counter()
        self._coordinator = coordinator
        self._exchanges = exchanges
        self._take(settings)
        self._memory: Memory = {}
        self._sweep: Iterator[None] | None = None
        self._present_at = self._watched_since = coordinator.now()
        self._next = Instant(self._present_at + self.every_ms)

    def adjust(self, settings: Settings) -> None:
        """Have other settings hold from the next look on."""
        self._take(settings)
        self._next = self._coordinator.now()
        if not settings.stall_ms:
            self.found, self._sweep = {}, None

    def _take(self, settings: Settings) -> None:
        self._settings = settings
        self.patience_ms = settings.stall_ms
        often = self.patience_ms // LOOKS_A_TIMEOUT
        self.every_ms = max(SHORTEST_MS, min(LONGEST_MS, often))
        self._absence_ms = max(2 * self.every_ms, self.patience_ms // 4)

    def step(self, now: Instant) -> None:
        if not self.patience_ms:
            return
        if now - self._present_at > self._absence_ms:
            # Whoever was away heard nothing meanwhile, and that is nobody's fault.
            self._watched_since = now
        self._present_at = now
        if self._sweep is None:
            if now < self._next:
                return
            if not self._is_any():
                # Whatever comes cannot hang before it has been there for a while.
                self.found, self._next = {}, Instant(now + self.every_ms)
                return
            self._sweep = self._look(now)
        if next(self._sweep, self) is self:
            self._sweep = None
            self._next = Instant(now + self.every_ms)

    def next_due(self) -> Instant:
        if not self.patience_ms:
            return NEVER
        if self._sweep is not None:
            return self._coordinator.now()
        if not self._is_any():
            return NEVER
        # What has only just come is looked at when it has been there for a while.
        return max(self._next, Instant(self._present_at + 1))

    def _is_any(self) -> bool:
        """Whether there is anything that could hang."""
        state = self._coordinator.state
        return bool(state.holders or state.ready.queues or state.dependents or len(state.debts))

    def current(self) -> list[Stall]:
        """What hangs and has not moved on since it was found, the oldest first."""
        here = [stall for stall in self.found.values() if self._is_so(stall)]
        return sorted(here, key=lambda stall: (stall.since, stall.id))

    def _is_so(self, stall: Stall) -> bool:
        job = self._coordinator.state.jobs.get(stall.job_id)
        if job is None or not stall.lease_id:
            return job is not None
        task = (job.tasks or {}).get(stall.index)
        return task is not None and task.lease_id == stall.lease_id

    def counts(self) -> dict[str, int]:
        """How many hang, by kind; every kind is named."""
        known = Counter(stall.kind for stall in self.current())
        return {kind: known[kind] for kind in MEANINGS}

    def approve(self, ids: Iterable[str], *, actor: str, reason: str) -> list[Outcome]:
        """Recover what hangs, as somebody decided. What has moved on is left alone."""
        outcomes: list[Outcome] = []
        for name in dict.fromkeys(ids):
            stall = self.found.get(name)
            if stall is None:
                outcomes.append(Outcome(name, NOT_STALLED, "holdfast stall list"))
            elif not stall.lease_id:
                outcomes.append(Outcome(name, NOT_RECOVERABLE, stall.command))
            else:
                done = self._recover(stall, actor, reason)
                outcomes.append(Outcome(name, RECOVERED if done else MOVED_ON))
        return outcomes

    def _recover(self, stall: Stall, actor: str, reason: str) -> bool:
        """End the attempt, unless another lease is current by now or it has ended."""
        age = span(self._coordinator.now() - stall.since)
        decision = self._coordinator.execute(
            c.RecoverStalled(
                job_id=stall.job_id,
                index=stall.index,
                lease_id=stall.lease_id,
                error=f"it stalled ({stall.kind}): {stall.why}, since {age}",
                delay_ms=self._settings.stall_delay_ms,
            ),
            actor=actor,
            reason=reason,
        )
        self.found.pop(stall.id, None)
        is_done = isinstance(decision, Accepted) and bool(decision.events)
        if is_done:
            self.recovered[stall.kind] += 1
            say("recovered", stall=stall.kind, attempt=stall.id, actor=actor)
        return is_done

    def _look(self, now: Instant) -> Iterator[None]:
        """One look at everything, a portion a turn."""
        found: dict[str, Stall] = {}
        memory: Memory = {}
        state = self._coordinator.state
        looked = 0
        for key in list(state.holders):
            holder = state.holders.get(key)
            if holder is None:
                continue
            looked += len(holder.leases)
            for stall in self._attempts(key, holder, memory, now):
                self._note(stall, found, now)
            if looked >= PORTION:
                looked = 0
                yield
        for stall in self._others(memory, now):
            self._note(stall, found, now)
        self.found, self._memory = found, memory

    def _others(self, memory: Memory, now: Instant) -> Iterator[Stall]:
        yield from deadlocks(self._coordinator.state, now, self.patience_ms)
        yield from self._left_waiting(memory, now)
        yield from self._stuck_sinks(memory, now)

    def _note(self, stall: Stall, found: dict[str, Stall], now: Instant) -> None:
        if stall.id not in self.found:
            age_s = (now - stall.since) / 1_000
            say("stall_found", stall=stall.kind, id=stall.id, age_s=age_s, why=stall.why)
        found.setdefault(stall.id, stall)
        if stall.lease_id and self._settings.stall_recovery == AUTO:
            found.pop(stall.id)
            self._recover(stall, ACTOR, f"{stall.kind}: {stall.why}")

    def _since(self, memory: Memory, now: Instant, *key: object) -> Instant:
        """From when on it is so; this look remembers it for the next."""
        memory[key] = self._memory.get(key, now)
        return memory[key]

    def _attempts(
        self, key: tuple[WorkerId, int], holder: Holder, memory: Memory, now: Instant
    ) -> list[Stall]:
        known = self._exchanges.workers.get(key[0])
        worker = known if known is not None and known.incarnation == key[1] else None
        heads = first_in_slots(holder.leases.values())
        found: list[Stall] = []
        for task in list(holder.leases.values()):
            leased_since = missing_since = NEVER
            if task.lease_id in heads:
                leased_since = self._since(memory, now, "leased", task.lease_id)
            if worker is not None and _is_missing(worker, task):
                missing_since = self._since(memory, now, "missing", task.lease_id)
            told = None if worker is None else worker.progress.get(task.lease_id)
            held = Held(
                task=task,
                spec=self._coordinator.state.jobs[task.job_id].spec,
                now=now,
                patience_ms=self.patience_ms,
                told_at=NEVER if told is None else told[1],
                missing_since=missing_since,
                leased_since=leased_since,
                watched_since=self._watched_since,
            )
            stall = attempt_stall(held)
            if stall is not None:
                found.append(stall)
        return found

    def _left_waiting(self, memory: Memory, now: Instant) -> Iterator[Stall]:
        """What a plan would place at every look, and what is not given out all the same."""
        state, exchanges = self._coordinator.state, self._exchanges
        if not state.ready.queues or not exchanges.granting or not exchanges.workers:
            return
        placed = Foresight(LiveCrew(state, exchanges).outlook()).placed
        for job_id, indices in placed.items():
            since = [(self._since(memory, now, "next", job_id, at), at) for at in sorted(indices)]
            first, index = min(since)
            if now - first >= self.patience_ms:
                yield left_waiting(state.jobs[JobId(job_id)], Index(index), first)

    def _stuck_sinks(self, memory: Memory, now: Instant) -> Iterator[Stall]:
        """Places that are owed something and where nothing was settled for too long."""
        deliveries = self._exchanges.deliveries
        stands = deliveries.standings()
        seen: dict[tuple[str, str], None] = {}
        for looks, owing in enumerate(self._coordinator.state.debts):
            where = (owing.debt.kind, owing.debt.place)
            is_still = owing.debt.parked or owing.is_asleep
            if looks >= DEBTS_MOST or where in seen or where[0] == BLOCK or is_still:
                continue
            told = stands(owing)
            if told.state not in (READY, DELIVERING):
                continue
            seen[where] = None
            settled = deliveries.delivered[where] + deliveries.failed[where]
            since = self._since(memory, now, "sink", where, settled)
            if now - since >= self.patience_ms:
                holder = deliveries.hands.holder_of(owing.name) or ""
                name = owing.name
                yield stuck_sink(called(name), name.job_id, owing.debt.place, since, holder)


def first_in_slots(tasks: Iterable[Task]) -> set[LeaseId]:
    """The leases that are first in their slot and have not begun: nothing runs before them."""
    first: dict[int, Task] = {}
    for task in tasks:
        known = first.get(task.slot)
        if known is None or known.started_at == NEVER != task.started_at:
            first[task.slot] = task
    return {task.lease_id for task in first.values() if task.started_at == NEVER}


def _is_missing(worker: Worker, task: Task) -> bool:
    """Whether a worker that was heard of does not name an attempt that it had begun."""
    return task.started_at != NEVER and task.lease_id not in worker.known()


def stalls_line(stalls: Stalls) -> str:
    """How much hangs, in words; empty for nothing."""
    told = [f"{count} {kind}" for kind, count in stalls.counts().items() if count]
    return f"{', '.join(told)}: `holdfast stall list`" if told else ""

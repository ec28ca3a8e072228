"""An executor that runs nothing: its attempts take the time the dice give them, and tell nobody how
far they are.

It answers a payload reversed, so that whoever reads a result can tell whether it is right. It is
stepped by whoever holds it, like everything else in a simulation.
"""

from collections import Counter, deque
from random import Random

from msgspec import Struct

from holdfast.core.ids import LeaseId
from holdfast.core.spec import STOP
from holdfast.wire.exchange import Done, Failed, Item, Lingering, Released, Run
from holdfast.worker.executor import Harvest, Running

LONGEST_MS = 4_000
LONGER_MS = 20_000
FAILS = "fails"
"""The target of a function that never goes well."""


def answer_to(payload: bytes) -> bytes:
    """What every task of a simulation returns."""
    return payload[::-1]


class Attempt(Struct):
    """One item in a lane; `until` is when it ends, once it has begun."""

    run: Run
    item: Item
    since: int = 0
    until: int = 0
    given_up: bool = False


class SteppedExecutor:
    """`failing` is the share of attempts that raise; `takes_ms` how long each takes, where the dice
    shall not say. `ran` counts how often each lease began: more
    than once would be a broken worker. A thread that was given up keeps its lane to the end."""

    def __init__(
        self, slots: int, dice: Random, *, failing: float = 0.0, takes_ms: int | None = None
    ) -> None:
        self.slots = slots
        self.fatal: str | None = None
        self.fatal_kind: str | None = None
        self.ran: Counter[LeaseId] = Counter()
        self.most_at_once = 0
        self._dice = dice
        self._failing = failing
        self._takes_ms = takes_ms
        self._lanes: list[deque[Attempt]] = [deque() for _ in range(slots)]
        self._harvest = Harvest([], [], [])
        self._closed = False
        # From then on nothing runs that must not outlive its lease.
        self._ends_ms = 0

    def start(self) -> None:
        """There is nothing to bring up."""

    def assign(self, run: Run) -> None:
        attempts = [Attempt(run, item) for item in run.items]
        lane = self._lane_for(run)
        if self._closed or lane is None:
            self._harvest.released.extend(_released(attempt) for attempt in attempts)
        else:
            lane.extend(attempts)

    def advance(self, now_ms: int) -> None:
        """Let time pass: what is over ends, what is next begins."""
        if self._ends_ms and now_ms >= self._ends_ms:
            self._end_the_bound()
        for lane in self._lanes:
            while lane:
                head = lane[0]
                if not head.since:
                    self._begin(head, now_ms)
                if head.until > now_ms:
                    break
                lane.popleft()
                if not head.given_up:
                    self._end(head)
        self.most_at_once = max(self.most_at_once, len(self.running()))

    def next_due(self) -> int:
        """When the next attempt ends; zero for never."""
        return min((lane[0].until for lane in self._lanes if lane and lane[0].since), default=0)

    def harvest(self) -> Harvest:
        harvest, self._harvest = self._harvest, Harvest([], [], [])
        return harvest

    def running(self) -> list[Running]:
        heads = [lane[0] for lane in self._lanes if lane and lane[0].since]
        return [
            Running(
                head.run.job_id, head.item.index, head.item.lease_id, head.since,
                head.run.timeout_ms, head.since, head.run.stall_ms,
            )
            for head in heads
            if not head.given_up
        ]  # fmt: skip

    def recall(self, lease_ids: frozenset[LeaseId]) -> None:
        for number, lane in enumerate(self._lanes):
            back = [a for a in lane if not a.since and a.item.lease_id in lease_ids]
            self._lanes[number] = deque(a for a in lane if a not in back)
            self._harvest.released.extend(_released(attempt) for attempt in back)

    def stop(self, lease_id: LeaseId, grace_ms: int | None = None) -> None:
        for number, lane in enumerate(self._lanes):
            for attempt in lane:
                if attempt.item.lease_id == lease_id:
                    attempt.given_up = True
            self._lanes[number] = deque(a for a in lane if a.since or not a.given_up)

    def cut_off(self, lease_id: LeaseId, grace_ms: int) -> None:
        for number, lane in enumerate(self._lanes):
            ended = [attempt for attempt in lane if attempt.item.lease_id == lease_id]
            self._lanes[number] = deque(attempt for attempt in lane if attempt not in ended)
            self._harvest.released.extend(_released(attempt) for attempt in ended)

    def drain(self) -> None:
        """Nobody here can be told."""

    def answer(self, lease_id: LeaseId, why: str) -> None:
        """Nobody here commits before its end."""

    def hold_until(self, ends_ms: int, kill_ms: int) -> None:
        self._ends_ms = ends_ms

    def is_bound(self, lease_id: LeaseId) -> bool:
        """Whether this attempt must not outlive its lease."""
        attempts = [attempt for lane in self._lanes for attempt in lane]
        return any(
            attempt.item.lease_id == lease_id and attempt.run.on_disconnect == STOP
            for attempt in attempts
        )

    def lingering(self) -> tuple[Lingering, ...]:
        heads = [(number, lane[0]) for number, lane in enumerate(self._lanes) if lane]
        return tuple(
            Lingering(
                head.item.lease_id, number, head.run.cpus_milli, head.run.memory_bytes,
                head.run.gpus, head.run.resources, head.run.job_id,
            )
            for number, head in heads
            if head.given_up
        )  # fmt: skip

    def in_use(self) -> tuple[int, int, int]:
        """Processors, memory and accelerators of everything that runs, wanted or not."""
        runs = [lane[0].run for lane in self._lanes if lane and lane[0].since]
        return (
            sum(run.cpus_milli for run in runs),
            sum(run.memory_bytes for run in runs),
            sum(run.gpus for run in runs),
        )

    def named_in_use(self) -> Counter[str]:
        """The named resources of everything that runs, wanted or not."""
        used: Counter[str] = Counter()
        for lane in self._lanes:
            if lane and lane[0].since:
                used.update(dict(lane[0].run.resources))
        return used

    def close(self, grace_ms: int) -> Harvest:
        self._closed = True
        for lane in self._lanes:
            self._harvest.released.extend(_released(a) for a in lane if not a.given_up)
            lane.clear()
        return self.harvest()

    def _lane_for(self, run: Run) -> deque[Attempt] | None:
        """The lane of the run's slot, or one that stands in while that is stuck; as threads do."""
        home = self._lanes[run.slot]
        if not (home and home[0].given_up):
            return home
        return next((lane for lane in self._lanes if not lane), None)

    def _end_the_bound(self) -> None:
        for attempt in [attempt for lane in self._lanes for attempt in lane]:
            if attempt.run.on_disconnect == STOP and not attempt.given_up:
                self.cut_off(attempt.item.lease_id, 0)

    def _begin(self, attempt: Attempt, now_ms: int) -> None:
        self.ran[attempt.item.lease_id] += 1
        attempt.since = now_ms
        if self._takes_ms is not None:
            attempt.until = now_ms + self._takes_ms
        else:
            longest = self._dice.choice((1, 50, LONGEST_MS))
            if attempt.run.on_disconnect == STOP:
                # Long enough to outlive a lease, or nothing would ever have to be stopped.
                longest = self._dice.choice((50, LONGER_MS))
            attempt.until = now_ms + self._dice.randrange(longest)

    def _end(self, attempt: Attempt) -> None:
        run, item = attempt.run, attempt.item
        ran_ms = attempt.until - attempt.since
        if self._dice.random() < self._failing or run.target == FAILS:
            self._harvest.failed.append(
                Failed(
                    run.job_id, item.index, item.lease_id, ran_ms, "failed", "ValueError: bad",
                    "", None,
                )
            )  # fmt: skip
        else:
            self._harvest.done.append(self.done_of(attempt, ran_ms))

    def done_of(self, attempt: Attempt, ran_ms: int) -> Done:
        """What an attempt that goes well reports."""
        item = attempt.item
        return Done(
            attempt.run.job_id, item.index, item.lease_id, ran_ms, answer_to(item.payload)
        )


def _released(attempt: Attempt) -> Released:
    return Released(
        attempt.run.job_id, attempt.item.index, attempt.item.lease_id, bool(attempt.since)
    )

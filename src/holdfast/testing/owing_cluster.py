"""The same cluster and the same bad network, for tasks that owe something after their commits.

Whatever happens, everything a commit owes arrives in the world at least once, always under the same
key and in the order of the commits, and nothing arrives that no commit owes. Blocks begin once, and
none is given up while its worker has it.
"""

from collections import Counter
from random import Random
from typing import Final

import msgspec

from holdfast.coordinator.deliveries import NOT_RUN
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import Index, JobId, LeaseId, task_name
from holdfast.core.owed import BLOCK, EFFECT, FILE, DebtName, Entry
from holdfast.testing.cluster import Cluster
from holdfast.testing.member import GPUS, MEMORY, Action, Member
from holdfast.testing.receivers import SteppedDeliverer, World
from holdfast.testing.stepped import Attempt, SteppedExecutor, answer_to
from holdfast.wire.delivery import SERVER, WORKERS, Staged
from holdfast.wire.exchange import Capacity, Done, Hello
from holdfast.wire.sinks import AnySink, FileSink, FunctionSink
from holdfast.worker.agent import Agent
from holdfast.worker.executor import Harvest, Left
from holdfast.worker.lanes import CUT_SHORT
from holdfast.worker.parcels import Parcels

SINKS: Final[dict[str, AnySink]] = {
    "ledger": FileSink(path="/ledger", tries=5, longest_wait="8s"),
    "call": FunctionSink(target="m:f", tries=5, longest_wait="8s"),
}
LOOK_MS: Final = 7_000
GIVEN_UP: Final = 0.2
"""How often an operator who finds an entry parked has done it by hand, and says so."""
KEYS: Final = ("", "ann", "bob")
DELIVERING: Final = (e.DeliveryFailed, e.EffectsParked, e.EffectsRetried, e.EffectsDiscarded)
NO_FILE: Final = msgspec.msgpack.encode(Staged("/nonexistent/staged", 1, exclusive=False))
"""The world of a simulation has no disks."""


def owed_by(payload: bytes, host: str) -> tuple[Entry, ...]:
    """What the task of this payload owes, wherever it runs; a file lies where it ran."""
    dice = Random(payload)
    made = [
        Entry(EFFECT, dice.choice(("ledger", "ledger", "call")), dice.choice(KEYS), payload)
        for _ in range(dice.choice((0, 1, 2, 3)))
    ]
    if dice.random() < 0.3:
        made.append(Entry(FILE, f"host:{host}", f"/out/{dice.choice('abc')}", NO_FILE))
    if dice.random() < 0.2:
        made.append(Entry(BLOCK, "", "", b""))
    return tuple(made)


class OwingExecutor(SteppedExecutor):
    """Its tasks owe what their payloads say. One that owes a block commits early, and begins the
    block when the agent says so, and as often: whether it may is what is judged. `begun` counts."""

    def __init__(
        self, slots: int, dice: Random, host: str, *, failing: float, longest_ms: int,
        begun: Counter[DebtName],
    ) -> None:  # fmt: skip
        super().__init__(slots, dice, failing=failing)
        self._host = host
        self._longest_ms = longest_ms
        self._begun = begun
        self._names: dict[LeaseId, DebtName] = {}
        # Those that have committed early and are not over, and when each leaves its block: zero
        # before time has passed in it.
        self._asking: set[LeaseId] = set()
        self._inside: dict[LeaseId, int] = {}
        self._left: list[Left] = []

    def done_of(self, attempt: Attempt, ran_ms: int) -> Done:
        run, item = attempt.run, attempt.item
        owed = owed_by(item.payload, self._host)
        result = answer_to(item.payload)
        return Done(run.job_id, item.index, item.lease_id, ran_ms, result, owed)

    def harvest(self) -> Harvest:
        ended = super().harvest()
        early = [done for done in ended.done if done.owed and done.owed[-1].kind == BLOCK]
        for done in early:
            name = DebtName(done.job_id, done.index, len(done.owed) - 1)
            self._names[done.lease_id] = name
            self._asking.add(done.lease_id)
        plain = [done for done in ended.done if done.lease_id not in self._names]
        left, self._left = self._left, []
        return Harvest(plain, ended.failed, ended.released, early, left)

    def answer(self, lease_id: LeaseId, why: str) -> None:
        self._asking.discard(lease_id)
        if not why:
            self.enter_block(lease_id)

    def enter_block(self, lease_id: LeaseId) -> None:
        self._begun[self._names[lease_id]] += 1
        self._inside[lease_id] = 0

    def advance(self, now_ms: int) -> None:
        super().advance(now_ms)
        for lease_id, until in list(self._inside.items()):
            if not until:
                self._inside[lease_id] = now_ms + self._dice.randrange(1, 3 * self._longest_ms)
            elif until <= now_ms:
                del self._inside[lease_id]
                raised = "ValueError: no" if self._dice.random() < 0.2 else ""
                self._left.append(Left(lease_id, raised))

    def next_due(self) -> int:
        dues = (super().next_due(), *self._inside.values())
        return min((due for due in dues if due), default=0)

    def close(self, grace_ms: int) -> Harvest:
        harvest = super().close(grace_ms)
        # Also those whose answer is still to come: nobody is there any more to hear it.
        over = sorted({*self._asking, *self._inside})
        harvest.left.extend(Left(lease_id, CUT_SHORT) for lease_id in over)
        self._asking.clear()
        self._inside.clear()
        return harvest


class OwingMember(Member):
    """A worker that delivers, and whose tasks run blocks after their commits."""

    def __init__(self, cluster: "OwingCluster", name: str, incarnation: int, slots: int) -> None:
        super().__init__(cluster, name, incarnation, slots)
        self.executor = OwingExecutor(
            slots, cluster.dice, name, failing=cluster.failing, longest_ms=cluster.longest_ms,
            begun=cluster.begun,
        )  # fmt: skip
        self.deliverer = SteppedDeliverer(
            cluster.world, cluster.dice, home=f"host:{name}", failing=2 * cluster.failing,
            longest_ms=cluster.longest_ms,
        )  # fmt: skip
        self.parcels = Parcels(self.deliverer)
        delivers = (SERVER, WORKERS) if name in ("w0", "w1") else (WORKERS,)
        hello = Hello(
            "host", incarnation, "test", lock=name, delivers=delivers, places=(f"host:{name}",)
        )
        capacity = Capacity(slots, slots * 1_000, MEMORY, GPUS)
        self.agent = Agent(
            self.name, incarnation, self.executor, capacity, hello=hello, parcels=self.parcels
        )

    def poll(self) -> None:
        if self.is_alive and not self.is_frozen:
            self.deliverer.advance(self.now_ms())
        super().poll()


class OwingCluster(Cluster):
    """`is_calm`: nothing goes wrong by itself. An operator sends what is parked on its way again,
    or gives it up, as blocks that nobody runs."""

    def __init__(
        self, seed: int, *, workers: int = 3, jobs: int = 4, is_calm: bool = False
    ) -> None:
        self.world = World()
        self.begun: Counter[DebtName] = Counter()
        self.failing = 0.0 if is_calm else 0.1
        self.longest_ms = 50 if is_calm else 2_000
        self._is_calm = is_calm
        super().__init__(seed, workers=workers, jobs=jobs)
        self.service.sinks = dict(SINKS)
        self.service.exchanges.adjust_sinks(SINKS)
        self.after(LOOK_MS, self._operate)

    def hire(self, name: str, incarnation: int, slots: int) -> Member:
        return OwingMember(self, name, incarnation, slots)

    def carry(self, message: Action) -> None:
        if self._is_calm:
            self.after(1, message)
        else:
            super().carry(message)

    def blows(self) -> list[Action]:
        return [_nothing] if self._is_calm else super().blows()

    def _operate(self) -> None:
        parked = [owing for owing in self.service.coordinator.state.debts if owing.debt.parked]
        blocks = [owing.name for owing in parked if owing.debt.kind == BLOCK]
        others = [owing.name for owing in parked if owing.debt.kind != BLOCK]
        given_up = [name for name in others if self.dice.random() < GIVEN_UP]
        again = tuple(name for name in others if name not in given_up)
        self.seen["block parked"] += len(blocks)
        self.seen["entry parked"] += len(others)
        if blocks or given_up:
            self.service.do(c.DiscardEffects(names=(*blocks, *given_up), reason="looked at"))
        if again:
            self.service.do(c.RetryEffects(names=again))
        self.after(LOOK_MS, self._operate)

    def judge(self) -> None:
        """From the log and the world alone: what was owed arrived, in its order, and no more."""
        super().judge()
        owed, given_up = self._promised()
        for where, arrived in self.world.arrived.items():
            firsts = list(dict.fromkeys(arrived))
            self.seen["came twice"] += len(arrived) - len(firsts)
            strangers = set(firsts) - set(owed.get(where, ()))
            if strangers:
                self.troubles.append(f"{sorted(strangers)} came to {where} and nobody owed it")
            due = [key for key in owed.get(where, ()) if key not in given_up]
            if where[1] and [key for key in firsts if key not in given_up] != due:
                self.troubles.append(f"{where} had {firsts} and was owed {due}")
        times = self.world.times()
        missing = [key for keys in owed.values() for key in keys if key not in times]
        if set(missing) - given_up:
            self.troubles.append(f"owed and never delivered: {sorted(set(missing) - given_up)}")
        self._judge_blocks()

    def _judge_blocks(self) -> None:
        twice = [name for name, count in self.begun.items() if count > 1]
        if twice:
            self.troubles.append(f"blocks begun twice: {twice}")
        # Workers here name each block until they have told what became of it.
        events = [event for record in self.service.records() for event in record.events]
        parks = [event for event in events if isinstance(event, e.EffectsParked)]
        gone = [
            DebtName(event.job_id, each.index, each.number)
            for event in parks
            for each in event.parked
            if each.error.endswith(NOT_RUN)
        ]
        if gone:
            self.troubles.append(f"blocks taken for gone: {gone}")

    def _promised(self) -> tuple[dict[tuple[str, str], list[str]], set[str]]:
        """What commits owe to each place and key, in their order; and what an operator gave up."""
        owed: dict[tuple[str, str], list[str]] = {}
        given_up: set[str] = set()
        keys: dict[tuple[JobId, Index], str] = {}
        for position, record in enumerate(self.service.records(), start=1):
            commits = [event for event in record.events if isinstance(event, e.TaskCommitted)]
            # Those of one record come by name.
            for commit in sorted(commits, key=lambda x: (x.job_id, x.commit.index)):
                self._look_at_commit(commit)
                task = (commit.job_id, commit.commit.index)
                keys[task] = self._key(*task, position)
                for number, entry in enumerate(commit.owed):
                    if entry.kind != BLOCK:
                        where = (entry.place, entry.key)
                        owed.setdefault(where, []).append(f"{keys[task]}:{number}")
            for event in record.events:
                if isinstance(event, e.EffectsDiscarded):
                    given_up |= {f"{keys[event.job_id, s.index]}:{s.number}" for s in event.settled}
                if isinstance(event, DELIVERING):
                    self.seen[type(event).__name__] += 1
        return owed, given_up

    def _key(self, job_id: JobId, index: Index, position: int) -> str:
        return f"{self.service.log.log_id}:{task_name(job_id, index)}:{position}"

    def _look_at_commit(self, event: e.TaskCommitted) -> None:
        keys = {job_id: key for key, job_id in self.acknowledged.items()}
        payload = self.wanted[keys[event.job_id]][event.commit.index]
        self.seen["owing"] += 1
        if event.commit.result != answer_to(payload):
            self.troubles.append(f"{event.job_id}/{event.commit.index} is wrong")


def _nothing() -> None:
    """Nobody is harmed."""

"""One executor over two kinds: a slot runs one thing at a time, whatever it is."""

from random import Random

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.testing.stepped import SteppedExecutor
from holdfast.wire.exchange import Item, Run
from holdfast.worker.mixed import MixedExecutor

TAKES_MS = 1_000


class Lanes(SteppedExecutor):
    """Either side: its lanes come to rest when nothing is in them, and then only if asked to."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots, Random(1), takes_ms=TAKES_MS)
        self.retired: set[int] = set()

    def retire(self, slot: int) -> None:
        self.retired.add(slot)

    def is_free(self, slot: int) -> bool:
        return slot in self.retired and not self._lanes[slot]

    def holds(self, slot: int) -> bool:
        return bool(self._lanes[slot])


class Bench:
    def __init__(self, *, pickle: bool = False) -> None:
        self.functions, self.commands = Lanes(2), Lanes(2)
        self.executor = MixedExecutor(self.functions, self.commands, pickle=pickle)
        self.now_ms = 1_000
        self.ended: list[int] = []
        self.failed: dict[int, str] = {}
        self.released: list[int] = []

    def give(self, kind: str, *leases: int, slot: int = 0) -> None:
        items = tuple(Item(Index(n), LeaseId(n), 1, b"x") for n in leases)
        self.executor.assign(Run(JobId("1"), slot, kind, "work", 0, 0, False, len(items), items))
        self.collect()

    def pass_time(self, ms: int = TAKES_MS) -> None:
        self.now_ms += ms
        self.collect()

    def collect(self) -> None:
        for side in (self.functions, self.commands):
            side.advance(self.now_ms)
        harvest = self.executor.harvest()
        self.ended += [done.lease_id for done in harvest.done]
        self.failed |= {failed.lease_id: failed.error for failed in harvest.failed}
        self.released += [back.lease_id for back in harvest.released]
        for side in (self.functions, self.commands):
            side.advance(self.now_ms)

    def lingering(self) -> list[int]:
        return [attempt.lease_id for attempt in self.executor.lingering()]

    def running(self) -> list[int]:
        return sorted(running.lease_id for running in self.executor.running())


def test_kinds_take_turns_in_a_slot_in_the_order_they_came() -> None:
    bench = Bench()
    bench.give("function", 1)
    bench.give("command", 2)
    bench.give("array", 3)
    for lease in (1, 2, 3):
        assert bench.running() == [lease]
        bench.pass_time()
    assert bench.ended == [1, 2, 3]


def test_a_slot_is_asked_to_rest_before_a_command_gets_it() -> None:
    bench = Bench()
    bench.give("function", 1)
    assert bench.functions.retired == set()
    bench.give("command", 2)
    assert bench.functions.retired == {0}
    assert bench.running() == [1]
    bench.give("command", 3, slot=1)
    assert bench.running() == [1, 3]


def test_what_waits_for_its_turn_can_be_taken_back_and_stopped() -> None:
    bench = Bench()
    bench.give("function", 1)
    bench.give("command", 2, 3, 4)
    bench.executor.recall(frozenset(map(LeaseId, (1, 2))))
    bench.executor.stop(LeaseId(3))
    bench.pass_time()
    assert bench.released == [2]
    assert bench.running() == [4]


def test_what_was_given_up_keeps_its_slot_until_it_ends() -> None:
    bench = Bench()
    bench.give("command", 1)
    bench.executor.stop(LeaseId(1))
    bench.give("function", 2)
    assert (bench.running(), bench.lingering()) == ([], [1])
    bench.pass_time()
    assert (bench.running(), bench.lingering()) == ([2], [])


def test_pickles_run_only_where_they_are_allowed_and_the_unknown_nowhere() -> None:
    bench = Bench()
    bench.give("pickle", 1)
    bench.give("riddle", 2)
    assert "--pickle" in bench.failed[1]
    assert "'riddle'" in bench.failed[2]
    allowed = Bench(pickle=True)
    allowed.give("pickle", 1)
    assert allowed.running() == [1]


def test_closing_gives_everything_back_once() -> None:
    bench = Bench()
    bench.give("function", 1)
    bench.give("command", 2)
    bench.give("command", 3, slot=1)
    harvest = bench.executor.close(0)
    back = sorted((released.lease_id, released.started) for released in harvest.released)
    assert back == [(1, True), (2, False), (3, True)]

"""Tasks wait for their bundle and for nothing else; whose fault it is decides who pays."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.core.ids import LeaseId
from holdfast.testing.archives import archive, file
from holdfast.testing.crew import Crew
from holdfast.wire.contents import new_digest
from holdfast.wire.errors import Unreachable
from holdfast.worker.bundles import BundleCache
from holdfast.worker.executor import Executor
from holdfast.worker.payloads import encode_call
from holdfast.worker.processes import ProcessExecutor
from holdfast.worker.supplied import SuppliedExecutor
from holdfast.worker.threads import ThreadExecutor

CODE = archive(file("x"))
ABSOLUTE = "builtins:abs"


def digest_of(content: bytes) -> str:
    digest = new_digest()
    digest.update(content)
    return digest.hexdigest()


def clock_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class House(Crew):
    """An executor of threads whose bundles come from here, when they are let through."""

    def __init__(self, folder: Path) -> None:
        self.contents = {digest_of(CODE): CODE}
        self.open = threading.Event()
        self.asked = threading.Semaphore(0)
        self.absences = 0
        self.trouble: Exception | None = None
        self.cache = BundleCache(folder / "cache", self._fetch)
        super().__init__(self._hire)

    def _hire(self, wake: Callable[[], None]) -> Executor:
        inside = ThreadExecutor(2, wake, clock_ms, bundles=True)
        return SuppliedExecutor(inside, self.cache, wake)

    @contextmanager
    def _fetch(self, digest: str) -> Iterator[list[bytes]]:
        self.asked.release()
        self.open.wait()
        if self.absences:
            self.absences -= 1
            raise Unreachable("here", "it is away")
        if self.trouble is not None:
            raise self.trouble
        yield [self.contents[digest]]

    def give(self, *numbers: int, bundle: str = digest_of(CODE), slot: int = 0) -> list[LeaseId]:
        payloads = [encode_call((number,)) for number in numbers]
        return self.assign(ABSOLUTE, payloads, bundle=bundle, slot=slot)

    def is_in_use(self) -> bool:
        return bool(self.cache._held)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.open.set()
    house.executor.close(0)


def test_they_wait_until_it_is_there_and_others_do_not(house: House):
    house.give(-1, -2)
    house.asked.acquire()
    house.give(-3, bundle="", slot=1)
    house.until(1)
    assert house.results() == [3]
    house.open.set()
    house.until(3)
    assert sorted(house.results()) == [1, 2, 3]
    assert not house.is_in_use()


def test_it_is_brought_once_however_many_wait(house: House):
    for slot in (0, 1, 0):
        house.give(-1, slot=slot)
    house.open.set()
    house.until(3)
    house.give(-1)
    house.until(4)
    house.asked.acquire()
    assert not house.asked.acquire(blocking=False)


def test_a_bad_bundle_is_a_failure_of_the_task(house: House):
    bad = archive(file("../escaped"))
    house.contents[digest_of(bad)] = bad
    house.open.set()
    house.give(-1, -2, bundle=digest_of(bad))
    house.until(2)
    assert [each.reason for each in house.failed] == ["failed", "failed"]
    assert "is bad" in house.failed[0].error
    assert digest_of(bad)[:12] in house.failed[0].error


def test_what_is_this_machines_fault_is_a_loss(house: House):
    house.trouble = OSError(28, "No space left on device")
    house.open.set()
    house.give(-1)
    house.until(1)
    (failed,) = house.failed
    assert failed.reason == "worker_lost"
    assert "No space left" in failed.error
    house.trouble = None
    house.give(-1)
    house.until(2)
    assert house.results() == [1]


def test_a_server_that_is_away_costs_nobody_anything(house: House):
    house.absences = 3
    house.open.set()
    house.give(-1)
    house.until(1)
    assert house.results() == [1]
    assert house.absences == 0


def test_what_waits_can_be_asked_back_or_stopped(house: House):
    first, second, third = house.give(-1, -2, -3)
    house.asked.acquire()
    house.executor.recall(frozenset((first,)))
    house.executor.stop(second)
    house.add(house.executor.harvest())
    assert [(each.lease_id, each.started) for each in house.released] == [(first, False)]
    house.open.set()
    house.until(2)
    assert house.leases(house.done) == [third]
    assert not house.is_in_use()


def test_whoever_leaves_gives_back_what_waits(house: House):
    leases = house.give(-1, -2)
    house.asked.acquire()
    house.add(house.executor.close(0))
    assert [each.lease_id for each in house.released] == leases
    assert not any(each.started for each in house.released)


def test_one_that_was_stopped_uses_its_bundle_until_it_has_ended(house: House, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    house.open.set()
    payload = encode_call((str(tmp_path / "pipe"),))
    target = "holdfast.testing.chores:wait_at"
    (lease,) = house.assign(target, [payload], bundle=digest_of(CODE))
    house.hear_the_bell()
    # Opening it waits until the task has opened it too.
    with open(tmp_path / "pipe", "w"):
        house.executor.stop(lease)
        house.add(house.executor.harvest())
        assert house.is_in_use()
    while house.is_in_use():
        house.hear_the_bell()
    assert house.done == house.failed == house.released == []


@pytest.mark.parametrize("kind", [ThreadExecutor, ProcessExecutor])
def test_nobody_runs_it_with_other_code_where_no_bundle_can_be_brought(
    kind: type[ThreadExecutor] | type[ProcessExecutor],
):
    crew = Crew(lambda wake: kind(1, wake, clock_ms))
    crew.assign(ABSOLUTE, [encode_call((-1,))], bundle=digest_of(CODE))
    crew.add(crew.executor.harvest())
    (failed,) = crew.failed
    assert failed.reason == "failed"
    assert "needs a bundle" in failed.error
    crew.executor.close(0)

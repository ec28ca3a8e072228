"""Large results are brought to the server first; its absence costs nobody anything."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from holdfast.core.ids import JobId, LeaseId, WorkerId
from holdfast.testing.crew import Crew
from holdfast.wire.bodies import Problem
from holdfast.wire.errors import Unreachable
from holdfast.wire.exchange import (
    LEASE_LOST,
    NOT_STORED,
    Capacity,
    Done,
    Exchange,
    Reply,
    Verdict,
)
from holdfast.wire.http import Rejected
from holdfast.worker.current import current
from holdfast.worker.functions import reference
from holdfast.worker.payloads import encode_call, encode_result
from holdfast.worker.results import Place, Spool
from holdfast.worker.stowing import StowedExecutor
from holdfast.worker.threads import ThreadExecutor

LARGE = 100_000
PATIENCE_S = 30


def rejected(status: int, code: str) -> Rejected:
    return Rejected(Problem(type="", title="", status=status, detail=f"it is {code}", code=code))


class Server:
    """The wire to a server: it takes what it is let, and says what it is told to say."""

    def __init__(self) -> None:
        self.has: dict[str, bytes] = {}
        self.uploads = 0
        self.troubles: list[Exception] = []
        self.open = threading.Event()
        self.asked = threading.Semaphore(0)
        self.open.set()

    def head(self, path: str) -> None:
        self.asked.release()
        self.open.wait()
        if self.troubles:
            raise self.troubles.pop()
        if path not in self.has:
            raise rejected(404, "not_found")

    def upload(self, path: str, content: BinaryIO, size: int) -> None:
        self.has[path] = content.read()
        self.uploads += 1
        assert len(self.has[path]) == size


class House(Crew):
    def __init__(self, folder: Path) -> None:
        self.server = Server()
        self.folder = folder / "spool"
        super().__init__(self._hire)

    def _hire(self, wake: Callable[[], None]) -> StowedExecutor:
        place = Place(str(self.folder), is_spool=True)
        inside = ThreadExecutor(2, wake, lambda: 0, results=place)
        self.stowed = StowedExecutor(inside, Spool(self.folder), self.server, wake)
        return self.stowed

    def give(self, *sizes: int, slot: int = 0) -> list[LeaseId]:
        payloads = [encode_call((size,)) for size in sizes]
        return self.assign("builtins:bytes", payloads, slot=slot)

    def begin_to_bring(self) -> None:
        """Until the server is asked about a result, and keeps the asker waiting."""
        self.hear_the_bell()
        assert self.server.asked.acquire(timeout=PATIENCE_S)

    def spooled(self) -> list[str]:
        return sorted(os.listdir(self.folder)) if self.folder.exists() else []

    def tell(self, reply: Reply, *refusals: Rejected) -> Reply:
        """The exchange that tells what was done, carried to a server that answers so."""
        answers: list[Any] = [*refusals, reply]

        async def carry(exchange: Exchange, answer_s: float) -> Reply:
            answer = answers.pop(0)
            if isinstance(answer, Rejected):
                raise answer
            return answer

        return asyncio.run(self.stowed.carrying(carry)(exchange_of(*self.done), 1.0))


def exchange_of(*done: Done) -> Exchange:
    capacity = Capacity(2, 2_000, 0, 0)
    return Exchange(WorkerId("w"), 1, 1, 0, capacity, (), done, (), (), (), 0, False)


def reply(kept: tuple[LeaseId, ...] = (), stops: tuple[Verdict, ...] = ()) -> Reply:
    return Reply(1, (), stops, (), (), kept=kept)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.server.open.set()
    house.executor.close(0)


def test_a_large_one_is_told_when_the_server_has_it_and_small_ones_do_not_wait(house: House):
    house.server.open.clear()
    (large,) = house.give(LARGE)
    house.begin_to_bring()
    house.give(3, slot=1)
    house.until(1)
    assert house.results() == [bytes(3)]
    house.server.open.set()
    house.until(2)
    assert house.done[1].lease_id == large
    stored = house.done[1].stored
    assert stored is not None
    assert house.server.has == {
        f"/api/v1/results/{stored.digest.hex()}": encode_result(bytes(LARGE))
    }


def test_a_lane_is_free_while_its_result_is_on_its_way(house: House):
    house.server.open.clear()
    house.give(LARGE, 1)
    house.begin_to_bring()
    house.until(1)
    assert house.executor.running() == []
    assert house.results() == [bytes(1)]


def test_what_the_server_has_is_not_sent_again(house: House):
    house.give(LARGE)
    house.until(1)
    house.give(LARGE)
    house.until(2)
    assert house.server.uploads == 1


def test_a_server_that_is_away_is_asked_again(house: House):
    away = Unreachable("here", "it is away")
    house.server.troubles = [away, away, away]
    house.give(LARGE)
    house.until(1)
    assert len(house.done) == 1
    assert not house.server.troubles


def test_a_server_that_does_not_take_it_fails_the_task_and_nothing_is_left(house: House):
    def refuse(path: str, content: BinaryIO, size: int) -> None:
        raise rejected(413, "too_large")

    house.server.upload = refuse  # type: ignore[method-assign]
    house.give(LARGE)
    house.until(1)
    (failed,) = house.failed
    assert failed.reason == "failed"
    assert failed.error == "the server does not take its result: it is too_large"
    assert house.spooled() == []


def test_what_is_this_machines_fault_is_a_loss(house: House):
    house.server.troubles = [OSError(5, "Input/output error")]
    house.give(LARGE)
    house.until(1)
    assert house.failed[0].reason == "worker_lost"
    assert "Input/output error" in house.failed[0].error


def test_one_that_nobody_wants_any_more_is_told_nobody(house: House):
    house.server.open.clear()
    (unwanted,) = house.give(LARGE)
    house.begin_to_bring()
    house.executor.stop(unwanted)
    house.server.open.set()
    house.give(LARGE + 1, slot=1)
    house.until(1)
    assert unwanted not in house.leases(house.done)
    assert str(unwanted) not in house.spooled()


def test_what_could_not_be_brought_in_time_is_given_back(house: House):
    house.server.open.clear()
    (lease,) = house.give(LARGE)
    house.begin_to_bring()
    house.add(house.executor.close(0))
    assert [(each.lease_id, each.started) for each in house.released] == [(lease, True)]
    assert not house.done


def test_it_is_kept_until_the_commit_is_answered(house: House):
    (lease,) = house.give(LARGE)
    house.until(1)
    assert house.spooled() == [str(lease)]
    house.tell(reply())
    assert house.spooled() == []


def test_a_server_that_lost_it_is_brought_it_again(house: House):
    house.give(LARGE)
    house.until(1)
    house.server.has.clear()
    house.tell(reply(), rejected(409, NOT_STORED))
    assert len(house.server.has) == 1
    assert house.server.uploads == 2
    assert house.spooled() == []


def test_another_no_is_passed_on(house: House):
    house.give(LARGE)
    house.until(1)
    with pytest.raises(Rejected, match="forbidden"):
        house.tell(reply(), rejected(403, "forbidden"))
    assert len(house.spooled()) == 1


def test_what_waits_for_its_gang_is_kept_until_that_is_decided(house: House):
    (lease,) = house.give(LARGE)
    house.until(1)
    house.tell(reply(kept=(lease,)))
    assert house.spooled() == [str(lease)]
    house.done = [Done(JobId("other"), house.done[0].index, LeaseId(99), 1, b"")]
    house.tell(reply(stops=(Verdict(lease, LEASE_LOST, ""),)))
    assert house.spooled() == []


def test_what_a_former_incarnation_left_is_removed(tmp_path: Path):
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "17").write_bytes(b"left")
    house = House(tmp_path)
    assert house.spooled() == []
    house.executor.close(0)


def commits_early(size: int) -> None:
    with current().commit(result=bytes(size)):
        raise AssertionError("nobody has accepted it")


def test_an_early_commit_whose_result_is_not_taken_fails_its_attempt_before_the_block(
    house: House,
):
    def refuse(path: str, content: BinaryIO, size: int) -> None:
        raise rejected(413, "too_large")

    house.server.upload = refuse  # type: ignore[method-assign]
    house.assign(reference(commits_early), [encode_call((LARGE,))])
    house.until(1)
    assert [failed.error for failed in house.failed] == [
        "the server does not take its result: it is too_large"
    ]
    assert (house.early, house.done) == ([], [])
    while house.executor.lingering():
        house.hear_the_bell()
    assert len(house.failed) == 1


def test_an_early_commit_that_was_not_brought_in_time_is_given_back(house: House):
    house.server.open.clear()
    (lease,) = house.assign(reference(commits_early), [encode_call((LARGE,))])
    house.begin_to_bring()
    last = house.executor.close(0)
    assert [back.lease_id for back in last.released] == [lease]
    assert (last.early, last.done) == ([], [])

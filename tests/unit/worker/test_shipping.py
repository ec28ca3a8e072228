"""Output on its way: nothing is lost or doubled by a network that loses requests and answers."""

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.coordinator.output import Gap, OutputStore
from holdfast.coordinator.outputparts import StreamName
from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.wire.bodies import Problem
from holdfast.wire.exchange import Item, Run
from holdfast.wire.http import Rejected, Unreachable
from holdfast.wire.output import Chunks, Kept, Receipt
from holdfast.worker import shipping
from holdfast.worker.captures import CaptureFile
from holdfast.worker.masking import Mask
from holdfast.worker.outbox import Outbox
from holdfast.worker.shipping import Shipper


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LIVE_S", "IDLE_S", "CALM_S", "FULL_S", "FIRST_PAUSE_S", "LONGEST_PAUSE_S"):
        monkeypatch.setattr(shipping, name, 0.001)


class Far:
    """A server behind a bad network: the real store, and a request or answer lost now and then."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.store = OutputStore(folder)
        self.dice = dice
        self.requests = 0

    async def bring(self, chunks: Chunks, answer_s: float) -> Receipt:
        assert (chunks.worker, chunks.incarnation) == ("w", 7)
        self.requests += 1
        if self.dice.random() < 0.3:
            raise Unreachable("far", "the request was lost")
        kept: list[Kept] = []
        for each in chunks.chunks:
            name = StreamName(each.job_id, each.index, each.attempt, each.stream)
            try:
                after = self.store.append(
                    name, each.offset, each.content, skips=each.skips, ended=each.ended
                )
                kept.append(Kept(after))
            except Gap as gap:
                kept.append(Kept(gap.expected, "offset_gap"))
        if self.dice.random() < 0.3:
            raise Unreachable("far", "the answer was lost")
        return Receipt(kept)

    def told(self, index: int) -> bytes:
        name = StreamName("1", index, 1, "stdout")
        content, offset = b"", 0
        while piece := self.store.read(name, offset, 1 << 20).content:
            content, offset = content + piece, offset + len(piece)
        return content


def run_of(index: int) -> tuple[Run, Item]:
    item = Item(Index(index), LeaseId(100 + index), 1, b"")
    return Run(JobId("1"), 0, "command", "c", 0, 0, False, 1, (item,)), item


async def drained(box: Outbox, bring: shipping.Bring, act: Callable[[], None]) -> None:
    shipper = Shipper(box, bring, WorkerId("w"), 7)
    task = asyncio.create_task(shipper.ship(lambda: True))
    await asyncio.to_thread(act)
    shipper.wake()
    await shipper.drain(task, 30)
    assert task.done()


def test_everything_arrives_once_and_in_order(tmp_path: Path, dice: random.Random) -> None:
    far = Far(tmp_path / "far", dice)
    box = Outbox(lambda: None)
    texts = {index: os.urandom(dice.randint(0, 200_000)) for index in range(5)}

    def act() -> None:
        for index in texts:
            path = tmp_path / str(index)
            path.touch()
            box.began(run_of(index), {"stdout": CaptureFile.at(path)}, Mask())
        for index, text in texts.items():
            with (tmp_path / str(index)).open("ab", buffering=0) as file:
                for at in range(0, len(text), 50_000):
                    file.write(text[at : at + 50_000])
            box.ended(LeaseId(100 + index))

    asyncio.run(drained(box, far.bring, act))
    assert box.is_empty()
    assert {index: far.told(index) for index in texts} == texts
    ended = {each.index for each in far.store.listed("1", 0, 100) if each.ended}
    assert ended == {index for index, text in texts.items() if text}


def test_a_server_without_the_route_ends_it_quietly(tmp_path: Path) -> None:
    box = Outbox(lambda: None)
    asked = 0

    async def bring(chunks: Chunks, answer_s: float) -> Receipt:
        nonlocal asked
        asked += 1
        raise Rejected(Problem(type="", title="", status=404, detail="no", code="not_found"))

    def act() -> None:
        (tmp_path / "x").write_bytes(b"hello")
        box.began(run_of(0), {"stdout": CaptureFile.at(tmp_path / "x")}, Mask())

    asyncio.run(drained(box, bring, act))
    assert box.is_empty()
    assert asked == 1


def test_a_worker_that_leaves_does_not_wait_for_ever(tmp_path: Path) -> None:
    box = Outbox(lambda: None)

    async def bring(chunks: Chunks, answer_s: float) -> Receipt:
        raise Unreachable("far", "away")

    async def story() -> None:
        (tmp_path / "x").write_bytes(b"hello")
        box.began(run_of(0), {"stdout": CaptureFile.at(tmp_path / "x")}, Mask())
        shipper = Shipper(box, bring, WorkerId("w"), 7)
        task = asyncio.create_task(shipper.ship(lambda: True))
        await shipper.drain(task, 0.05)
        assert task.cancelled()

    asyncio.run(story())
    assert not box.is_empty()
    box.close()

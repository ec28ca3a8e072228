"""What was printed and not sent yet: it goes in order, again after a loss, and within bounds."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.wire.exchange import Item, Run
from holdfast.wire.output import Chunk, Kept
from holdfast.worker import outbox as module
from holdfast.worker.captures import CaptureFile
from holdfast.worker.lanes import Entry
from holdfast.worker.masking import Mask
from holdfast.worker.outbox import Outbox, Shown
from holdfast.worker.prints import LanePrints
from holdfast.worker.slate import Slate, shared_file


def an_entry(lease: int) -> Entry:
    item = Item(Index(lease * 10), LeaseId(lease), 1, b"")
    return Run(JobId("1"), 0, "function", "m:f", 0, 0, False, 1, (item,)), item


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[CaptureFile]:
    file = CaptureFile.in_folder(tmp_path)
    yield file
    file.close()


@pytest.fixture
def box() -> Iterator[Outbox]:
    made = Outbox(lambda: None)
    yield made
    made.close()


def own_file(tmp_path: Path, name: str, content: bytes = b"") -> CaptureFile:
    (tmp_path / name).write_bytes(content)
    return CaptureFile.at(tmp_path / name)


def accept(box: Outbox) -> list[tuple[int, str, int, bytes, bool]]:
    """Take one batch as a server would that has nothing against it."""
    chunks = box.gather()
    for chunk in chunks:
        box.settle(chunk, Kept(chunk.offset + len(chunk.content)))
    box.forget_sent()
    return [(c.lease_id, c.stream, c.offset, c.content, c.ended) for c in chunks]


def test_what_a_finished_task_printed_goes_out_once(box: Outbox, shared: CaptureFile) -> None:
    os.write(shared.descriptor, b"onetwo")
    box.printed(an_entry(1), "stdout", shared, 0, 3)
    box.printed(an_entry(2), "stdout", shared, 3, 6)
    box.printed(an_entry(2), "stderr", shared, 6, 6)
    assert accept(box) == [
        (1, "stdout", 0, b"one", True),
        (2, "stdout", 0, b"two", True),
        (2, "stderr", 0, b"", True),
    ]
    assert box.is_empty()
    assert box.gather() == []


def test_a_chunk_that_was_not_answered_for_is_sent_again(box: Outbox, shared: CaptureFile) -> None:
    os.write(shared.descriptor, b"one")
    box.printed(an_entry(1), "stdout", shared, 0, 3)
    first = box.gather()
    assert box.gather() == first
    box.settle(first[0], Kept(0, "not_ready"))
    assert box.gather() == first
    box.settle(first[0], Kept(3))
    assert box.is_empty()


def test_a_command_is_followed_while_it_runs(box: Outbox, tmp_path: Path) -> None:
    file = own_file(tmp_path, "out", b"hello ")
    box.began(an_entry(1), {"stdout": file}, Mask())
    assert accept(box) == [(1, "stdout", 0, b"hello ", False)]
    assert accept(box) == []
    with (tmp_path / "out").open("ab") as more:
        more.write(b"world")
    assert accept(box) == [(1, "stdout", 6, b"world", False)]
    box.ended(LeaseId(1))
    assert accept(box) == [(1, "stdout", 11, b"", True)]
    assert box.is_empty()


def test_a_secret_that_a_command_prints_is_covered(box: Outbox, tmp_path: Path) -> None:
    file = own_file(tmp_path, "out", b"key=hunter2 and hun")
    box.began(an_entry(1), {"stdout": file}, Mask(["hunter2"]))
    assert accept(box) == [(1, "stdout", 0, b"key=******* and ", False)]
    with (tmp_path / "out").open("ab") as more:
        more.write(b"ter2\n")
    assert accept(box) == [(1, "stdout", 16, b"*******\n", False)]


@pytest.mark.parametrize("code", ["not_found", "lease_lost", "gone", "invalid"])
def test_what_the_server_will_never_take_is_given_up(
    box: Outbox, tmp_path: Path, code: str
) -> None:
    box.began(an_entry(1), {"stdout": own_file(tmp_path, "out", b"x")}, Mask())
    (chunk,) = box.gather()
    box.settle(chunk, Kept(0, code))
    box.ended(LeaseId(1))
    assert box.is_empty()


def test_a_server_that_lost_something_gets_it_again(box: Outbox, tmp_path: Path) -> None:
    box.began(an_entry(1), {"stdout": own_file(tmp_path, "out", b"hello")}, Mask())
    accept(box)
    with (tmp_path / "out").open("ab") as more:
        more.write(b" world")
    (chunk,) = box.gather()
    assert (chunk.offset, chunk.skips) == (5, False)
    box.settle(chunk, Kept(2, "offset_gap"))
    (again,) = box.gather()
    assert (again.offset, again.content) == (2, b"llo world")


def test_what_we_have_lost_ourselves_is_skipped_and_said(
    box: Outbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in {"STREAM_BYTES": 400_000, "HEAD_BYTES": 70_000, "TAIL_BYTES": 70_000}.items():
        monkeypatch.setattr(module, name, size)
    text = os.urandom(1_000_000)
    box.began(an_entry(1), {"stdout": own_file(tmp_path, "out", text)}, Mask())
    box.ended(LeaseId(1))
    told: list[Chunk] = []
    while chunks := box.gather():
        told += chunks
        for chunk in chunks:
            box.settle(chunk, Kept(chunk.offset + len(chunk.content)))
    if not any(chunk.skips for chunk in told):
        pytest.skip("this disk cannot punch holes")
    assert all(c.content == text[c.offset : c.offset + len(c.content)] for c in told)
    assert sum(len(chunk.content) for chunk in told) < 400_000
    assert told[0].offset == 0
    assert told[-1].ended
    assert told[-1].offset + len(told[-1].content) == len(text)


def test_batches_are_bounded(
    box: Outbox, shared: CaptureFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 10)
    monkeypatch.setattr(module, "CHUNK_BYTES", 6)
    monkeypatch.setattr(module, "BATCH_CHUNKS", 3)
    os.write(shared.descriptor, b"x" * 30)
    for lease in range(1, 6):
        box.printed(an_entry(lease), "stdout", shared, 0, 8)
    assert [len(chunk.content) for chunk in box.gather()] == [6, 4]
    monkeypatch.setattr(module, "BATCH_BYTES", 1_000)
    assert [len(chunk.content) for chunk in box.gather()] == [6, 6, 6]


def test_where_too_much_waits_the_oldest_that_ended_goes(
    box: Outbox, shared: CaptureFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ALL_BYTES", 100)
    os.write(shared.descriptor, b"x" * 400)
    for lease in range(1, 5):
        box.printed(an_entry(lease), "stdout", shared, lease * 40, lease * 40 + 40)
    assert [chunk.lease_id for chunk in box.gather()] == [3, 4]


def test_a_running_function_is_shown_and_not_revived_once_it_is_over(
    box: Outbox, shared: CaptureFile
) -> None:
    os.write(shared.descriptor, b"old new")
    shown = [Shown(an_entry(1), "stdout", shared, 4, 7)]
    box.showing = lambda: shown
    assert accept(box) == [(1, "stdout", 0, b"new", False)]
    os.write(shared.descriptor, b"er!")
    box.printed(an_entry(1), "stdout", shared, 4, 10)
    assert accept(box) == [(1, "stdout", 3, b"er!", True)]
    assert accept(box) == []


class Pair:
    """A lane's files with a slate, and what its outlet is told."""

    def __init__(self, tmp_path: Path, box: Outbox) -> None:
        self.files = (CaptureFile.in_folder(tmp_path), CaptureFile.in_folder(tmp_path))
        self.slate = Slate(shared_file("test"))
        self.prints = LanePrints(self.files, box)

    def shown(self, entry: Entry | None) -> list[tuple[int, str, int, int]]:
        found = self.prints.shown(self.slate, lambda _: entry)
        return [(each.entry[1].lease_id, each.stream, each.start, each.end) for each in found]

    def close(self) -> None:
        self.slate.close()
        for file in self.files:
            file.close()


@pytest.fixture
def lane(tmp_path: Path, box: Outbox) -> Iterator[Pair]:
    made = Pair(tmp_path, box)
    yield made
    box.close()
    made.close()


def test_the_tasks_of_a_lane_are_told_apart_by_where_each_ended(lane: Pair, box: Outbox) -> None:
    out, err = (file.descriptor for file in lane.files)
    os.write(out, b"one")
    lane.prints.told(an_entry(1), (3, 0))
    os.write(out, b"three")
    os.write(err, b"oh")
    lane.prints.told(an_entry(3), (8, 2))
    assert accept(box) == [
        (1, "stdout", 0, b"one", True),
        (1, "stderr", 0, b"", True),
        (3, "stdout", 0, b"three", True),
        (3, "stderr", 0, b"oh", True),
    ]


def test_a_task_that_died_has_printed_all_that_is_there(lane: Pair, box: Outbox) -> None:
    os.write(lane.files[0].descriptor, b"one")
    lane.prints.told(an_entry(1), (3, 0))
    os.write(lane.files[0].descriptor, b"half a li")
    lane.prints.died(an_entry(2))
    assert [told[:4] for told in accept(box)][2:] == [
        (2, "stdout", 0, b"half a li"),
        (2, "stderr", 0, b""),
    ]
    lane.prints.died(None)
    lane.prints.died(an_entry(3))
    assert box.is_empty()


def test_what_runs_is_seen_from_the_slate(lane: Pair) -> None:
    os.write(lane.files[0].descriptor, b"one, two")
    assert lane.shown(an_entry(7)) == []
    lane.slate.mark((5, 0))
    lane.slate.name(7, 1)
    assert lane.shown(an_entry(7)) == [(7, "stdout", 5, 8)]
    assert lane.shown(None) == []
    lane.slate.mark((8, 0))
    assert lane.shown(an_entry(7)) == []
    lane.slate.name(8, 2)
    assert lane.shown(an_entry(8)) == []


def test_a_task_that_changes_during_the_look_is_not_shown(lane: Pair) -> None:
    os.write(lane.files[0].descriptor, b"one, two")
    lane.slate.mark((5, 0))
    lane.slate.name(7, 1)

    def meanwhile(lease_id: LeaseId) -> Entry:
        lane.slate.mark((8, 0))
        lane.slate.name(8, 2)
        return an_entry(lease_id)

    assert list(lane.prints.shown(lane.slate, meanwhile)) == []

"""One suite for every log: files on the real disk, files on a simulated one, and memory."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from holdfast.core.errors import BrokenInvariant, LogFailed
from holdfast.testing.disks import FaultyDisk
from holdfast.wal import FileLog, HistoryGone, Log, MemoryLog, write_snapshot
from holdfast.wal.disk import Disk, RealDisk

SEGMENT_BYTES = 8192


class World(Protocol):
    """A place where a log lives through openings."""

    def open(self) -> Log: ...

    def crash(self) -> Log:
        """Open again after the writer died without closing."""

    def cover(self, log: Log, position: int) -> None:
        """Have a snapshot stand for everything up to `position`."""


class FileWorld:
    def __init__(self, disk: Disk, folder: Path, let_go: Callable[[FileLog], None]) -> None:
        self.disk = disk
        self.folder = folder
        self._let_go = let_go
        self._log: FileLog | None = None

    def open(self) -> Log:
        self._log = FileLog.open(self.folder, disk=self.disk, segment_bytes=SEGMENT_BYTES)
        return self._log

    def crash(self) -> Log:
        assert self._log is not None
        self._let_go(self._log)
        return self.open()

    def cover(self, log: Log, position: int) -> None:
        head = log.chain_after(position)
        assert head is not None
        write_snapshot(self.disk, self.folder, position, head, log.log_id, [b"state"], b"hash")

    def finish(self) -> None:
        if self._log is not None:
            self._log.close()


class MemoryWorld:
    def __init__(self) -> None:
        self._log: MemoryLog | None = None

    def open(self) -> Log:
        self._log = MemoryLog() if self._log is None else self._log.reopen()
        return self._log

    def crash(self) -> Log:
        return self.open()

    def cover(self, log: Log, position: int) -> None:
        """Memory drops without asking."""


def release_only(log: FileLog) -> None:
    """What the death of a process does on the real disk: the locks go, nothing is written."""
    log._hint.close()
    log._lock.release()


@pytest.fixture(params=["real files", "simulated files", "memory"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    if request.param == "real files":
        place = FileWorld(RealDisk(), tmp_path / "data", release_only)
    else:
        disk = FaultyDisk()
        place = FileWorld(disk, Path("/data"), lambda log: disk.restart())
    yield place
    place.finish()


def records_of(log: Log, position: int = 1) -> list[bytes]:
    return [record for frame in log.read(position) for record in frame.records]


def put(log: Log, *records: bytes, at: int = 1) -> int:
    last = log.append(records, at=at, wall=at + 1000)
    log.sync()
    return last


def test_a_new_log_is_empty_and_has_an_identity(world: World) -> None:
    log = world.open()
    assert (log.last, log.durable, log.oldest, log.epoch) == (0, 0, 1, 1)
    assert len(bytes.fromhex(log.log_id)) == 16
    assert len(log.head) == 16
    assert log.torn is None
    assert list(log.read()) == []


def test_positions_count_records_from_one_without_gaps(world: World) -> None:
    log = world.open()
    assert put(log, b"a", b"b", b"c") == 3
    assert put(log, b"d") == 4
    assert [(frame.first, frame.last) for frame in log.read()] == [(1, 3), (4, 4)]


def test_a_frame_says_when_and_by_whom_it_was_written_and_what_was_durable(world: World) -> None:
    log = world.open()
    put(log, b"a", b"b", at=5)
    put(log, b"c", at=9)
    first, second = log.read()
    assert (first.at, first.wall, first.epoch, first.acked) == (5, 1005, 1, 0)
    assert (second.at, second.wall, second.epoch, second.acked) == (9, 1009, 1, 2)
    assert second.chain == log.head


def test_records_are_any_bytes_even_none(world: World) -> None:
    log = world.open()
    records = [b"", bytes(range(256)), b"\0" * 300, b"x" * 5000, b""]
    log.append(records, at=0, wall=0)
    assert records_of(log) == records


def test_times_may_be_negative(world: World) -> None:
    log = world.open()
    log.append([b"a"], at=-5, wall=-7)
    (frame,) = log.read()
    assert (frame.at, frame.wall) == (-5, -7)


def test_written_is_not_durable_before_the_sync(world: World) -> None:
    log = world.open()
    assert log.append([b"a"], at=0, wall=0) == 1
    assert (log.last, log.durable) == (1, 0)
    assert log.sync() == 1
    assert log.durable == 1


def test_a_second_frame_waits_for_the_sync_of_the_first(world: World) -> None:
    log = world.open()
    log.append([b"a"], at=0, wall=0)
    with pytest.raises(BrokenInvariant, match="not synced"):
        log.append([b"b"], at=0, wall=0)
    log.sync()
    assert put(log, b"b") == 2
    assert records_of(log) == [b"a", b"b"]


def test_an_empty_frame_is_refused_and_nothing_happens(world: World) -> None:
    log = world.open()
    head = log.head
    with pytest.raises(BrokenInvariant, match="at least one record"):
        log.append([], at=0, wall=0)
    assert (log.last, log.head) == (0, head)


def test_a_sync_with_nothing_to_sync_says_what_is_durable(world: World) -> None:
    log = world.open()
    assert log.sync() == 0
    put(log, b"a")
    assert log.sync() == 1


def test_reading_starts_with_the_frame_that_holds_the_position(world: World) -> None:
    log = world.open()
    put(log, b"a", b"b", b"c")
    put(log, b"d", b"e")
    assert [frame.first for frame in log.read(2)] == [1, 4]
    assert [frame.first for frame in log.read(5)] == [4]
    assert list(log.read(6)) == []


def test_a_reader_sees_what_is_appended_while_it_reads(world: World) -> None:
    log = world.open()
    put(log, b"a")
    reading = log.read()
    assert next(reading).records == (b"a",)
    put(log, b"b")
    assert next(reading).records == (b"b",)
    assert next(reading, None) is None


def test_every_record_is_found_by_its_position(world: World) -> None:
    log = world.open()
    wanted = []
    for size in range(60):
        batch = [bytes([size]) * (size * 7 + part) for part in range(size % 4 + 1)]
        wanted += batch
        put(log, *batch)
    for position, content in enumerate(wanted, start=1):
        frame, record = log.record(position)
        assert record == content
        assert frame.first <= position <= frame.last


def test_a_position_never_written_is_not_found(world: World) -> None:
    log = world.open()
    put(log, b"a")
    for position in (-1, 0, 2):
        with pytest.raises(BrokenInvariant, match="never written"):
            log.record(position)


def test_what_was_durable_is_there_after_a_crash(world: World) -> None:
    log = world.open()
    wanted = [b"%d" % number * 50 for number in range(150)]
    for record in wanted:
        put(log, record)
    head, log_id = log.head, log.log_id
    again = world.crash()
    assert records_of(again) == wanted
    assert (again.last, again.durable, again.head, again.log_id) == (150, 150, head, log_id)


def test_a_closed_log_opens_with_everything_in_it(world: World) -> None:
    log = world.open()
    put(log, b"a")
    log.append([b"b"], at=0, wall=0)
    log.close()
    assert records_of(world.open()) == [b"a", b"b"]


def test_every_opening_has_a_higher_epoch_even_when_nothing_is_written(world: World) -> None:
    epochs = []
    for _ in range(4):
        log = world.open()
        epochs.append(log.epoch)
        log.close()
    assert epochs == [1, 2, 3, 4]
    log = world.open()
    put(log, b"a")
    assert next(log.read()).epoch == 5


def test_every_opening_after_a_crash_has_a_higher_epoch_too(world: World) -> None:
    epochs = [world.open().epoch]
    epochs += [world.crash().epoch for _ in range(3)]
    assert epochs == [1, 2, 3, 4]


def test_a_closed_log_takes_nothing_more_and_closes_twice(world: World) -> None:
    log = world.open()
    log.close()
    log.close()
    with pytest.raises(LogFailed, match="closed"):
        log.append([b"a"], at=0, wall=0)
    with pytest.raises(LogFailed, match="closed"):
        log.sync()


def test_the_head_depends_on_every_record_and_on_their_order(world: World) -> None:
    heads = set()
    log = world.open()
    heads.add(log.head)
    for record in (b"a", b"b", b"a"):
        put(log, record)
        heads.add(log.head)
    assert len(heads) == 4


def test_the_chain_is_known_after_every_frame_and_nowhere_else(world: World) -> None:
    log = world.open()
    origin = log.head
    put(log, b"a", b"b")
    first = log.head
    put(log, b"c")
    assert log.chain_after(0) == origin
    assert log.chain_after(1) is None
    assert log.chain_after(2) == first
    assert log.chain_after(3) == log.head
    assert log.chain_after(4) is None


def test_dropped_history_is_gone_and_the_rest_stays(world: World) -> None:
    log = world.open()
    for number in range(200):
        put(log, b"%d" % number * 40)
    world.cover(log, 150)
    assert log.drop_segments(100) == log.oldest
    assert 1 < log.oldest <= 100
    with pytest.raises(HistoryGone) as gone:
        log.read(log.oldest - 1)
    assert gone.value.oldest == log.oldest
    with pytest.raises(HistoryGone):
        log.record(1)
    assert log.record(100)[1] == b"99" * 40
    assert records_of(log, log.oldest)[-1] == b"199" * 40
    again = world.crash()
    assert again.oldest == log.oldest
    assert put(again, b"more") == 201


def test_the_newest_history_is_never_dropped(world: World) -> None:
    log = world.open()
    put(log, b"a")
    put(log, b"b")
    world.cover(log, 2)
    log.drop_segments(1000)
    assert records_of(log, log.oldest)[-1] == b"b"
    assert put(log, b"c") == 3


def test_idling_and_preparing_change_nothing_that_is_seen(world: World) -> None:
    log = world.open()
    put(log, b"a")
    log.note_idle()
    assert log.prepare_next()
    log.append([b"b"], at=0, wall=0)
    log.note_idle()
    assert (log.last, log.durable) == (2, 1)
    log.sync()
    assert records_of(log) == [b"a", b"b"]
    assert not log.pressure

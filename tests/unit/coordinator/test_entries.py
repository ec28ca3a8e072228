"""Bodies of entries are read from the record of their commit, for as long as they are owed."""

from collections import Counter
from pathlib import Path

import pytest

from holdfast.coordinator.entries import CACHED_BYTES, Entries
from holdfast.coordinator.snapshotting import Course, make_snapshot
from holdfast.coordinator.taking import take_folder
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import Position
from holdfast.core.owed import EFFECT, Entry
from holdfast.core.record import Record, decode_record
from holdfast.testing.world import World
from holdfast.wal import FileLog

SEGMENT_BYTES = 16 * 1024


def owing(world: World, job_id: str, *bodies: bytes) -> None:
    world.submit(job_id)
    (lease,) = world.grant(job_id)
    world.commit(job_id, 0, lease, owed=tuple(Entry(EFFECT, "mail", "", body) for body in bodies))


def test_the_commit_record_of_what_is_owed_outlives_the_segment_it_was_in(tmp_path: Path) -> None:
    world = World()
    owing(world, "owing", b"first", b"second")
    owing(world, "done", b"third")
    world.confirm("done", 0, 0)
    world.tick(keep_finished=0, keep_finished_ms=0)
    assert set(world.state.jobs) == {"owing"}
    for number in range(400):
        world.submit(f"later {number}", items=(bytes(200),))
    log = FileLog.open(tmp_path, segment_bytes=SEGMENT_BYTES)
    for first in range(0, len(world.log), 4):
        frame = world.log[first : first + 4]
        log.append(frame, at=decode_record(frame[-1]).at, wall=0)
        log.sync()
    last = len(world.log)
    for position in (last - last % 4 - 8, last - last % 4):
        made = make_snapshot(Course(str(tmp_path), position, 0))
        log.drop_segments(made.drop_before)
    committed = world.task("owing").committed
    assert log.oldest > committed
    log.close()
    taken = take_folder(tmp_path, term_ms=0)
    entries = Entries(taken.recent)
    found = sorted(entries.of(each).body for each in taken.coordinator.state.debts)
    assert found == [b"first", b"second"]
    taken.log.close()


def reading(world: World, read: Counter[int]) -> Entries:
    def record(position: Position) -> Record:
        read[position] += 1
        return world.records()[position - 1][1]

    return Entries(record)


def test_entries_of_one_record_are_read_once_and_large_ones_are_not_kept() -> None:
    world, read = World(), Counter[int]()
    owing(world, "small", b"a", b"b", b"c")
    owing(world, "large", bytes(CACHED_BYTES))
    entries = reading(world, read)
    small = [each for each in world.state.debts if each.name.job_id == "small"]
    (large,) = [each for each in world.state.debts if each.name.job_id == "large"]
    assert [entries.of(each).body for each in small] == [b"a", b"b", b"c"]
    assert read[small[0].position] == 1
    entries.of(large)
    entries.of(large)
    assert read[large.position] == 1
    entries.of(small[0])
    assert read[small[0].position] == 2


def test_a_record_without_the_commit_is_a_broken_invariant() -> None:
    world = World()
    owing(world, "j", b"a")
    (owed,) = world.state.debts
    owed.position = Position(1)
    with pytest.raises(BrokenInvariant, match="record 1 did not commit task j/0"):
        reading(world, Counter()).of(owed)

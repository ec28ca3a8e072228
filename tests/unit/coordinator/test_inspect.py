"""Reading a folder without owning it."""

import shutil
from pathlib import Path

import pytest

from holdfast.coordinator.inspect import (
    LogDamaged,
    Moment,
    NoLog,
    Unreachable,
    Walls,
    look_into,
    open_folder,
)
from holdfast.core.freeze import fingerprint, freeze
from holdfast.core.record import decode_record
from holdfast.testing.world import World
from holdfast.wal import FileLog, RealDisk, write_snapshot

OFFSET = 1_700_000_000_000


def story(jobs: int = 6) -> World:
    world = World()
    for number in range(1, jobs + 1):
        world.submit("", 2)
        (lease,) = world.grant(str(number), 0)
        world.start(str(number), 0, lease)
        world.sleep(1_000)
        world.commit(str(number), 0, lease)
    return world


def append(log: FileLog, records: list[bytes], offset: int = OFFSET, batch: int = 5) -> None:
    for first in range(0, len(records), batch):
        frame = records[first : first + batch]
        at = decode_record(frame[-1]).at
        log.append(frame, at=at, wall=at + offset)
        log.sync()


def write(path: Path, world: World) -> Path:
    log = FileLog.open(path)
    append(log, world.log)
    log.close()
    return path


def snapshot(path: Path, world: World, position: int) -> None:
    state = world.replayed(position)
    log = FileLog.open(path)
    chain = log.chain_after(position)
    assert chain is not None
    state_hash = fingerprint(state).encode()
    write_snapshot(RealDisk(), path, position, chain, log.log_id, [freeze(state)], state_hash)
    log.close()


def files(path: Path) -> dict[Path, bytes]:
    return {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}


@pytest.fixture(scope="module")
def long_world() -> World:
    return story(jobs=60)


@pytest.fixture(scope="module")
def original(long_world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written once, since a log waits for the disk at every frame."""
    path = tmp_path_factory.mktemp("long") / "state"
    log = FileLog.open(path, segment_bytes=16 * 1024)
    append(log, long_world.log, batch=16)
    log.close()
    return path


@pytest.fixture
def long_folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "state"))


def test_every_position_gives_the_state_that_was(tmp_path: Path) -> None:
    world = story(jobs=2)
    folder = write(tmp_path / "state", world)
    for position in (0, 1, 2, 4, 5, 6, 9):
        reading = open_folder(folder, Moment(position=position))
        assert fingerprint(reading.state) == fingerprint(world.replayed(position))
    assert fingerprint(open_folder(folder).state) == world.fingerprint()


def test_a_snapshot_on_the_way_changes_nothing_that_is_seen(tmp_path: Path) -> None:
    world = story(jobs=2)
    folder = write(tmp_path / "state", world)
    snapshot(folder, world, 5)
    for position in (4, 5, 6, len(world.log)):
        reading = open_folder(folder, Moment(position=position))
        assert fingerprint(reading.state) == fingerprint(world.replayed(position))


def test_a_snapshot_that_cannot_be_used_is_passed_over(tmp_path: Path) -> None:
    world = story(jobs=2)
    folder = write(tmp_path / "state", world)
    snapshot(folder, world, 5)
    (path,) = (folder / "snapshots").glob("*.snap")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert fingerprint(open_folder(folder).state) == world.fingerprint()


def test_reading_takes_no_lock_and_changes_no_byte(tmp_path: Path) -> None:
    folder = write(tmp_path / "state", story(jobs=2))
    before = files(folder)
    open_folder(folder)
    assert files(folder) == before


def test_a_folder_in_use_is_read_up_to_what_is_written(tmp_path: Path) -> None:
    world = story(jobs=2)
    log = FileLog.open(tmp_path / "state")
    append(log, world.log[:5])
    early = open_folder(tmp_path / "state")
    append(log, world.log[5:])
    late = open_folder(tmp_path / "state")
    log.close()
    assert fingerprint(early.state) == fingerprint(world.replayed(5))
    assert fingerprint(late.state) == world.fingerprint()


def test_history_that_was_dropped_is_refused_and_what_is_kept_is_not(
    long_folder: Path, long_world: World
) -> None:
    folder, world = long_folder, long_world
    last = len(world.log)
    covered = last - last % 16
    snapshot(folder, world, covered)
    log = FileLog.open(folder, segment_bytes=16 * 1024)
    oldest = log.drop_segments(covered)
    log.close()
    assert 1 < oldest < covered
    assert fingerprint(open_folder(folder).state) == world.fingerprint()
    kept = open_folder(folder, Moment(position=covered))
    assert fingerprint(kept.state) == fingerprint(world.replayed(covered))
    # The moment that is named instead is one that can be looked at: the snapshot's.
    named = f"`--at {covered}`"
    for position in (1, oldest - 1, oldest):
        with pytest.raises(Unreachable, match=f"no longer kept.*{named}"):
            open_folder(folder, Moment(position=position))
    with pytest.raises(Unreachable, match=f"position {oldest}, is later.*{named}"):
        open_folder(folder, Moment(wall=OFFSET))
    assert next(look_into(folder).records()).position == oldest


def test_an_older_snapshot_serves_the_time_before_a_newer_one(
    long_folder: Path, long_world: World
) -> None:
    folder, world = long_folder, long_world
    for position in (160, 208):
        snapshot(folder, world, position)
    log = FileLog.open(folder, segment_bytes=16 * 1024)
    oldest = log.drop_segments(160)
    log.close()
    assert 1 < oldest < 160
    between = open_folder(folder, Moment(position=170))
    assert fingerprint(between.state) == fingerprint(world.replayed(170))


def test_beyond_the_end_is_refused_naming_the_end(tmp_path: Path) -> None:
    folder = write(tmp_path / "state", story(jobs=2))
    with pytest.raises(Unreachable, match="ends at position 9"):
        open_folder(folder, Moment(position=10))


def test_a_time_after_the_end_is_the_end(tmp_path: Path) -> None:
    world = story(jobs=2)
    folder = write(tmp_path / "state", world)
    late = open_folder(folder, Moment(wall=OFFSET + world.now + 86_400_000))
    assert late.state.position == len(world.log)


def test_where_the_clock_was_set_back_the_later_of_two_equal_times_is_meant(
    tmp_path: Path,
) -> None:
    world = story(jobs=2)
    log = FileLog.open(tmp_path / "state")
    append(log, world.log[:5], offset=OFFSET + 60_000)
    append(log, world.log[5:], offset=OFFSET, batch=1)
    log.close()
    at = decode_record(world.log[5]).at
    assert look_into(tmp_path / "state").position_of(Moment(wall=OFFSET + at)) == 8


def test_a_folder_without_a_log_is_not_made_into_one(tmp_path: Path) -> None:
    with pytest.raises(NoLog):
        open_folder(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_listed_is_neither_empty_nor_damaged(tmp_path: Path) -> None:
    folder = write(tmp_path / "state", story(jobs=2))
    shutil.rmtree(folder / "wal")
    # A loop stands for whatever the operating system refuses, permissions included.
    (folder / "wal").symlink_to(folder / "wal")
    with pytest.raises(OSError, match="symbolic links"):
        open_folder(folder)


def test_a_log_that_is_gone_is_damage(tmp_path: Path) -> None:
    folder = write(tmp_path / "state", story(jobs=2))
    for segment in (folder / "wal").glob("*.seg"):
        segment.unlink()
    with pytest.raises(LogDamaged, match="is gone"):
        open_folder(folder)


def test_an_instant_is_dated_by_the_frame_that_told_of_it() -> None:
    walls = Walls()
    assert walls.wall(5) == 5
    for at, offset in ((10, 100), (20, 100), (30, 500), (40, 100)):
        walls.note(at, at + offset)
    told = {instant: walls.wall(instant) - instant for instant in (1, 10, 15, 20, 21, 30, 31, 99)}
    assert told == {1: 100, 10: 100, 15: 100, 20: 100, 21: 500, 30: 500, 31: 100, 99: 100}


def test_a_reading_dates_by_both_sides_of_a_jump(tmp_path: Path) -> None:
    world = story(jobs=2)
    log = FileLog.open(tmp_path / "state")
    append(log, world.log[:5], offset=OFFSET)
    append(log, world.log[5:], offset=OFFSET + 3_600_000)
    log.close()
    reading = open_folder(tmp_path / "state")
    first, second = reading.state.jobs.values()
    assert reading.wall(first.created_at) - first.created_at == OFFSET
    assert reading.wall(second.updated_at) - second.updated_at == OFFSET + 3_600_000

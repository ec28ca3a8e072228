"""Verifying a folder: bytes, chain, snapshots, and what they add up to."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.coordinator.verify import Finding, verify_folder
from holdfast.core.freeze import fingerprint, freeze
from holdfast.core.record import decode_record
from holdfast.testing.world import World
from holdfast.wal import FileLog, LogDamaged, RealDisk, write_snapshot

JOBS = 60
SEGMENT_BYTES = 16 * 1024
BATCH = 16
COVERED = 208


def story() -> World:
    world = World()
    for number in range(1, JOBS + 1):
        world.submit("", 2)
        (lease,) = world.grant(str(number), 0)
        world.start(str(number), 0, lease)
        world.sleep(1_000)
        world.commit(str(number), 0, lease)
    return world


def write(path: Path, records: list[bytes]) -> Path:
    log = FileLog.open(path, segment_bytes=SEGMENT_BYTES)
    for first in range(0, len(records), BATCH):
        frame = records[first : first + BATCH]
        at = decode_record(frame[-1]).at
        log.append(frame, at=at, wall=at)
        log.sync()
    log.close()
    return path


@pytest.fixture(scope="module")
def world() -> World:
    return story()


@pytest.fixture(scope="module")
def original(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written once, since a log waits for the disk at every frame."""
    return write(tmp_path_factory.mktemp("story") / "state", world.log)


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "state"))


def snapshot(
    path: Path, world: World, *, log_id: str = "", chain: bytes = b"", claim: bytes = b""
) -> None:
    state = world.replayed(COVERED)
    log = FileLog.open(path, segment_bytes=SEGMENT_BYTES)
    write_snapshot(
        RealDisk(),
        path,
        COVERED,
        chain or log.chain_after(COVERED) or b"",
        log_id or log.log_id,
        [freeze(state)],
        claim or fingerprint(state).encode(),
    )
    log.close()


def test_a_good_log_is_good_with_and_without_a_snapshot(folder: Path, world: World) -> None:
    bare = verify_folder(folder)
    snapshot(folder, world)
    covered = verify_folder(folder)
    for finding in (bare, covered):
        assert finding.is_good
        assert finding.state_hash == world.fingerprint()
        assert finding.last == len(world.log)
    assert (bare.snapshots, covered.snapshots) == (0, 1)
    assert bare.head == covered.head


def test_a_log_whose_beginning_was_dropped_adds_up_to_the_same(folder: Path, world: World) -> None:
    whole = verify_folder(folder)
    snapshot(folder, world)
    log = FileLog.open(folder, segment_bytes=SEGMENT_BYTES)
    oldest = log.drop_segments(COVERED)
    log.close()
    finding = verify_folder(folder)
    assert finding.is_good
    assert finding.oldest == oldest > 1
    assert (finding.state_hash, finding.head) == (whole.state_hash, whole.head)


def test_without_a_good_snapshot_to_stand_for_it_a_dropped_beginning_is_a_flaw(
    folder: Path, world: World
) -> None:
    snapshot(folder, world)
    log = FileLog.open(folder, segment_bytes=SEGMENT_BYTES)
    log.drop_segments(COVERED)
    log.close()
    (path,) = (folder / "snapshots").glob("*.snap")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    finding = verify_folder(folder)
    assert "no usable snapshot" in flaws(finding)
    assert finding.last == 0
    path.unlink()
    with pytest.raises(LogDamaged, match="no snapshot stands for it"):
        verify_folder(folder)


def flaws(finding: Finding) -> str:
    assert not finding.is_good
    return "; ".join(flaw.why for flaw in finding.flaws)


@pytest.mark.parametrize(
    ("forge", "words"),
    [
        (lambda path, world: snapshot(path, world, log_id="00" * 16), "it belongs to log 0000"),
        (lambda path, world: snapshot(path, world, chain=b"\1" * 16), "its chain head is not"),
        (
            lambda path, world: snapshot(path, world, claim=b"x" * 32),
            "not hold the state it claims",
        ),
    ],
)
def test_a_snapshot_that_is_whole_and_wrong_is_a_flaw(
    folder: Path, world: World, forge: Callable[[Path, World], None], words: str
) -> None:
    forge(folder, world)
    finding = verify_folder(folder)
    assert words in flaws(finding)
    # The log itself is as good as before.
    assert finding.state_hash == world.fingerprint()


def test_a_damaged_snapshot_is_named_with_its_byte(folder: Path, world: World) -> None:
    snapshot(folder, world)
    (path,) = (folder / "snapshots").glob("*.snap")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    (flaw,) = verify_folder(folder).flaws
    assert flaw.file == str(path)
    assert flaw.offset is not None


def test_a_snapshot_of_more_than_the_log_holds_proves_that_the_log_was_longer(
    tmp_path: Path, world: World
) -> None:
    folder = write(tmp_path / "short", world.log[:32])
    snapshot(folder, world, chain=b"\1" * 16)
    assert "yet the log ends at 32" in flaws(verify_folder(folder))


def test_a_log_that_no_program_would_open_is_never_called_good(folder: Path, world: World) -> None:
    (folder / "wal" / "acked").write_bytes(b"neither copy")
    with pytest.raises(LogDamaged, match="acknowledged"):
        FileLog.open(folder)
    finding = verify_folder(folder)
    assert "acknowledged" in flaws(finding)
    assert (finding.last, finding.state_hash) == (len(world.log), world.fingerprint())


def test_history_dropped_under_the_eyes_of_a_reader_is_no_flaw(
    folder: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot(folder, world)
    first, opened, plain = sorted((folder / "wal").glob("0*.seg"))[0], [], RealDisk.open

    def opening(disk: RealDisk, path: Path, **flags: bool) -> int:
        # The survey has read the segment when it is opened again to be told.
        opened.append(path)
        if path == first and opened.count(first) == 2:
            log = FileLog.open(folder, segment_bytes=SEGMENT_BYTES)
            log.drop_segments(COVERED)
            log.close()
        return plain(disk, path, **flags)

    monkeypatch.setattr(RealDisk, "open", opening)
    finding = verify_folder(folder)
    assert not first.exists()
    assert finding.is_good
    assert (finding.last, finding.state_hash) == (len(world.log), world.fingerprint())


def test_a_torn_tail_is_told_and_is_no_damage(folder: Path, world: World) -> None:
    segment = sorted((folder / "wal").glob("0*.seg"))[-1]
    content = bytearray(segment.read_bytes())
    end = len(content.rstrip(b"\0"))
    end += -end % 8
    # A frame that a crash cut short: its first bytes, and then nothing.
    content[end : end + 20] = content[4096 : 4096 + 20]
    segment.write_bytes(content)
    finding = verify_folder(folder)
    assert finding.is_good
    assert finding.torn_bytes > 0
    assert finding.last == len(world.log)

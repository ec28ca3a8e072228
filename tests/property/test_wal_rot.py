"""One cut, zeroed byte and flipped bit of each kind, through a full opening: seen or harmless.

`test_wal_bytes.py` tries every byte and bit of the frames on the pure judgement.
"""

from pathlib import Path
from zlib import crc32

import pytest

from holdfast.testing.disks import FaultyDisk
from holdfast.wal import FileLog, LogDamaged, NewerFormat, read_folder
from holdfast.wal.frames import genesis
from holdfast.wal.hint import SLOT_BYTES, Hint, judge_slots
from holdfast.wal.segments import SEGMENT_HEADER_BYTES, decode_header, segment_name

SLICES = 32
LOG_ID = bytes(range(16))
DATA = Path("/data")
SEGMENT = DATA / "wal" / segment_name(1)
HINT = DATA / "wal" / "acked"


def a_folder() -> tuple[FaultyDisk, list[bytes], list[int]]:
    """A log that was closed, so that its hint names everything; and the offsets of its frames."""
    disk = FaultyDisk()
    log = FileLog.open(DATA, disk=disk, segment_bytes=16384, new_id=LOG_ID)
    records, offsets = [], []
    for number in range(20):
        offsets.append(log._segment.end)
        records.append(bytes([65 + number]) * (number * 9 + 1))
        log.append([records[-1]], at=number, wall=number)
        log.sync()
    offsets.append(log._segment.end)
    log.close()
    return disk, records, offsets


def forget_the_hint(disk: FaultyDisk) -> None:
    """Let the hint know only that the log was opened, as after a crash without idle."""
    hint = judge_slots(disk.content(HINT))
    assert hint is not None
    fresh = Hint(LOG_ID, 1, 0, 1, 1, genesis(LOG_ID).chain)
    disk.plant(HINT, fresh.encode().ljust(2 * SLOT_BYTES, b"\0"))


def everything(disk: FaultyDisk) -> dict[Path, bytes]:
    return {path: disk.content(path) for path in disk.files() if path.suffix != ".lock"}


def assert_refused(disk: FaultyDisk, file: Path) -> None:
    before = everything(disk)
    with pytest.raises(LogDamaged) as refused:
        FileLog.open(DATA, disk=disk)
    assert refused.value.file == file
    assert f"holdfast log verify {DATA}" in str(refused.value)
    assert everything(disk) == before


def assert_opens_with(disk: FaultyDisk, records: list[bytes], *, torn: bool) -> None:
    log = FileLog.open(DATA, disk=disk)
    assert [record for frame in log.read() for record in frame.records] == records
    assert (log.torn is not None) == torn
    log.append([b"after", b"that"], at=0, wall=0)
    log.sync()
    log.close()
    again = FileLog.open(DATA, disk=disk)
    found = [record for frame in again.read() for record in frame.records]
    assert found == [*records, b"after", b"that"]
    assert again.torn is None


@pytest.mark.parametrize("how", ["cut", "zeroed"])
@pytest.mark.parametrize("where", ["at a frame", "in a header", "in a payload"])
@pytest.mark.parametrize("hinted", [True, False])
def test_a_shortened_log_opens_only_where_nothing_acknowledged_is_missing(
    how: str, where: str, hinted: bool
) -> None:
    disk, records, offsets = a_folder()
    cut = offsets[15] + {"at a frame": 0, "in a header": 30, "in a payload": 90}[where]
    content = disk.content(SEGMENT)
    disk.plant(SEGMENT, content[:cut] + (bytes(len(content) - cut) if how == "zeroed" else b""))
    if hinted:
        assert_refused(disk, SEGMENT)
    else:
        forget_the_hint(disk)
        assert_opens_with(disk, records[:15], torn=where != "at a frame")


FIELD_OFFSETS = {
    "magic": 0,
    "length": 4,
    "first": 8,
    "count": 16,
    "flags": 20,
    "epoch": 24,
    "at": 32,
    "wall": 40,
    "acked": 48,
    "chain": 56,
    "crc": 72,
    "record length": 76,
    "payload": 85,
}


@pytest.mark.parametrize("field", FIELD_OFFSETS)
@pytest.mark.parametrize("frame", [0, 10, 19])
def test_a_bit_flipped_in_any_field_is_refused(field: str, frame: int) -> None:
    disk, records, offsets = a_folder()
    content = bytearray(disk.content(SEGMENT))
    content[min(offsets[frame] + FIELD_OFFSETS[field], offsets[frame + 1] - 1)] ^= 4
    disk.plant(SEGMENT, bytes(content))
    assert_refused(disk, SEGMENT)
    forget_the_hint(disk)
    if frame < 19:
        assert_refused(disk, SEGMENT)
    else:
        assert_opens_with(disk, records[:19], torn=True)


@pytest.mark.parametrize("part", range(8))
def test_every_bit_of_a_segment_header_is_guarded(part: int) -> None:
    disk, _, _ = a_folder()
    header = bytearray(disk.content(SEGMENT)[:SEGMENT_HEADER_BYTES])
    decode_header(SEGMENT, bytes(header))
    for bit in range(part, len(header) * 8, 8):
        header[bit // 8] ^= 1 << bit % 8
        with pytest.raises(LogDamaged):
            decode_header(SEGMENT, bytes(header))
        header[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("offset", [0, 8, 12, 16, 32, 40, 48, 64, 4092])
def test_a_bit_flipped_in_a_segment_header_is_refused(offset: int) -> None:
    disk, _, _ = a_folder()
    content = bytearray(disk.content(SEGMENT))
    content[offset] ^= 1
    disk.plant(SEGMENT, bytes(content))
    assert_refused(disk, SEGMENT)


@pytest.mark.parametrize("part", range(SLICES))
def test_every_bit_of_the_hint_is_guarded(part: int) -> None:
    """One flip leaves the newest hint, or an older one that knows a newer may have been lost."""
    older = Hint(LOG_ID, 6, 10, 2, 1, b"o" * 16)
    newer = Hint(LOG_ID, 7, 20, 2, 1, b"n" * 16)
    content = bytearray(older.encode() + newer.encode())
    whole = judge_slots(bytes(content))
    assert whole is not None
    assert (whole.hint, whole.other_is_bad) == (newer, False)
    for bit in range(part, len(content) * 8, SLICES):
        content[bit // 8] ^= 1 << bit % 8
        reading = judge_slots(bytes(content))
        assert reading is not None
        assert reading.hint == (newer if bit < SLOT_BYTES * 8 else older)
        assert reading.other_is_bad
        content[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("offset", [0, 8, 24, 32, 40, 48, 56, 72, 100])
@pytest.mark.parametrize("slot", [0, 1])
def test_a_bit_flipped_in_the_hint_loses_nothing(offset: int, slot: int) -> None:
    disk, records, _ = a_folder()
    content = bytearray(disk.content(HINT))
    content[slot * SLOT_BYTES + offset] ^= 1
    disk.plant(HINT, bytes(content))
    assert_opens_with(disk, records, torn=False)


@pytest.mark.parametrize("slot", [0, 1])
def test_a_bad_slot_and_a_torn_tail_together_are_refused(slot: int) -> None:
    """One crash cannot do both, and the slot that is gone may have named what the tail held."""
    disk, _, offsets = a_folder()
    hint = bytearray(disk.content(HINT))
    hint[slot * SLOT_BYTES] ^= 1
    disk.plant(HINT, bytes(hint))
    content = bytearray(disk.content(SEGMENT))
    content[offsets[19] + 80] ^= 1
    disk.plant(SEGMENT, bytes(content))
    assert_refused(disk, SEGMENT)


@pytest.mark.parametrize("ruin", [b"", b"\0" * 8192, b"x" * 8192, None])
def test_a_log_without_a_readable_hint_is_refused(ruin: bytes | None) -> None:
    disk, _, _ = a_folder()
    if ruin is None:
        disk.unlink(HINT)
    else:
        disk.plant(HINT, ruin)
    assert_refused(disk, HINT)


def test_a_newer_format_is_named_and_a_flipped_version_is_not_one() -> None:
    disk, _, _ = a_folder()
    content = bytearray(disk.content(SEGMENT))
    content[8] = 2
    disk.plant(SEGMENT, bytes(content))
    assert_refused(disk, SEGMENT)
    body = bytes(content[: SEGMENT_HEADER_BYTES - 4])
    disk.plant(SEGMENT, body + crc32(body).to_bytes(4, "little") + content[SEGMENT_HEADER_BYTES:])
    with pytest.raises(NewerFormat, match="format 2") as newer:
        FileLog.open(DATA, disk=disk)
    assert (newer.value.found, newer.value.known) == (2, 1)
    disk.plant(HINT, b"whatever a newer format keeps here")
    with pytest.raises(NewerFormat):
        FileLog.open(DATA, disk=disk)
    with pytest.raises(NewerFormat):
        read_folder(DATA, disk=disk)

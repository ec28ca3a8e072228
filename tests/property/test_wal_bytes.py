"""Every byte cut, every byte zeroed, every bit flipped: always seen, never a silently shorter log.

The judgement of a segment is pure, so it is tried here on bytes alone, for every byte and bit. Each
try begins at the frame that was hurt; `test_scanning_is_a_fold` says why that is the same. One of
each kind is also tried through a full opening.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.testing.disks import FaultyDisk
from holdfast.wal import FileLog, LogDamaged, NewerFormat
from holdfast.wal.frames import (
    HEADER_BYTES,
    Edge,
    Frame,
    decode,
    encode,
    extent_at,
    flaw_at,
    genesis,
    later_frame,
    scan,
    seed_of,
)
from holdfast.wal.hint import SLOT_BYTES, Hint, judge_slots
from holdfast.wal.recovery import Clean, Damage, Torn, judge
from holdfast.wal.segments import SEGMENT_HEADER_BYTES, decode_header, segment_name

SLICES = 32
TAIL_BYTES = 600
LOG_ID = bytes(range(16))
SEED = seed_of(LOG_ID)
DATA = Path("/data")
SEGMENT = DATA / "wal" / segment_name(1)
HINT = DATA / "wal" / "acked"


class Place(NamedTuple):
    """A frame in the sample: where it lies, and where the log stands before it."""

    offset: int
    end: int
    before: Edge
    after: Edge


class Sample(NamedTuple):
    """A segment's frames, as bytes with zeros behind, and the records in them."""

    content: bytes
    places: list[Place]
    records: list[bytes]

    @property
    def end(self) -> int:
        return self.places[-1].end


def batches(dice: Random) -> Iterator[list[bytes]]:
    """300 records and more of varied sizes, some of them zeros: zeros are what a cut leaves."""
    count = 0
    while count < 300:
        batch = [
            bytes(size) if dice.random() < 0.1 else dice.randbytes(size)
            for size in (dice.choice((0, 1, 7, 40, 90, 200)) for _ in range(dice.randint(1, 4)))
        ]
        count += len(batch)
        yield batch


@pytest.fixture(scope="module")
def sample(seed: int) -> Sample:
    edge, content = genesis(LOG_ID), b""
    places, records = [], []
    for number, batch in enumerate(batches(Random(f"{seed}:sample"))):
        frame, after = encode(edge, SEED, batch, epoch=1 + number // 50, at=number, wall=number)
        places.append(Place(len(content), len(content) + len(frame), edge, after))
        content += frame
        records += batch
        edge = after
    return Sample(content + bytes(TAIL_BYTES), places, records)


def verdicts_from(
    content: bytes | bytearray, place: Place, hints: list[int]
) -> tuple[int, list[Clean | Torn | Damage]]:
    """The position the log reaches, scanning from this frame on, and the judgement by each hint."""
    found = scan(content, place.offset, place.before, SEED)
    return found.edge.position, [
        judge(content, found, SEED, acked=acked, hint_is_whole=True, is_newest=True)
        for acked in hints
    ]


def verdict_from(
    content: bytes | bytearray, place: Place, acked: int
) -> tuple[int, Clean | Torn | Damage]:
    reached, (verdict,) = verdicts_from(content, place, [acked])
    return reached, verdict


def my_share(sample: Sample, part: int) -> list[Place]:
    return sample.places[part::SLICES]


def hints(sample: Sample) -> list[int]:
    """Hints to try: nothing, something in the middle, everything."""
    return [0, sample.places[len(sample.places) * 2 // 3].after.position, len(sample.records)]


def test_the_sample_is_large_enough_to_mean_something(sample: Sample) -> None:
    assert len(sample.records) >= 300
    assert 15_000 < sample.end < 45_000
    found = scan(sample.content, 0, genesis(LOG_ID), SEED)
    assert (found.end, found.edge.position) == (sample.end, len(sample.records))


def test_scanning_is_a_fold(sample: Sample) -> None:
    """Scanning from any frame gives what scanning from the start gives."""
    whole = scan(sample.content, 0, genesis(LOG_ID), SEED)
    for place in sample.places:
        part = scan(sample.content, place.offset, place.before, SEED)
        assert (part.edge, part.end, part.tail, part.flaw) == (
            whole.edge,
            whole.end,
            whole.tail,
            whole.flaw,
        )


@pytest.mark.parametrize("part", range(SLICES))
def test_a_segment_cut_at_any_byte_is_its_longest_prefix_or_refused(
    sample: Sample, part: int
) -> None:
    for place in my_share(sample, part):
        for cut in range(place.offset, place.end):
            reached, verdicts = verdicts_from(sample.content[:cut], place, hints(sample))
            assert reached == place.before.position
            for acked, verdict in zip(hints(sample), verdicts, strict=True):
                if acked > reached:
                    assert isinstance(verdict, Damage)
                elif sample.content[place.offset : cut].strip(b"\0"):
                    assert isinstance(verdict, Torn)
                    assert verdict.offset == place.offset
                else:
                    assert verdict == Clean(place.offset)


@pytest.mark.parametrize("part", range(SLICES))
def test_a_segment_zeroed_from_any_byte_is_its_longest_prefix_or_refused(
    sample: Sample, part: int
) -> None:
    content, size = sample.content, len(sample.content)
    for place in my_share(sample, part):
        for cut in range(place.offset, place.end):
            hurt = content[:cut] + bytes(size - cut)
            is_whole = hurt[: place.end] == content[: place.end]
            expected = place.after.position if is_whole else place.before.position
            reached, verdicts = verdicts_from(hurt, place, hints(sample))
            assert reached == expected
            for acked, verdict in zip(hints(sample), verdicts, strict=True):
                if acked > reached:
                    assert isinstance(verdict, Damage)
                elif is_whole or cut == place.offset:
                    assert isinstance(verdict, Clean)
                else:
                    assert isinstance(verdict, Torn)


@pytest.mark.parametrize("part", range(SLICES))
def test_every_flipped_bit_of_every_frame_is_seen(sample: Sample, part: int) -> None:
    """Damage, whatever the hint; only in the last frame, when nobody acknowledged it, torn."""
    content = bytearray(sample.content)
    for place in my_share(sample, part):
        is_last = place is sample.places[-1]
        for bit in range(place.offset * 8, place.end * 8):
            content[bit // 8] ^= 1 << bit % 8
            reached, verdict = verdict_from(content, place, 0)
            assert reached == place.before.position, bit
            assert isinstance(verdict, Torn if is_last else Damage), (bit, verdict)
            if is_last:
                _, acknowledged = verdict_from(content, place, place.after.position)
                assert isinstance(acknowledged, Damage), bit
            content[bit // 8] ^= 1 << bit % 8
    assert content == sample.content


def test_every_flipped_bit_behind_the_end_is_seen_and_costs_no_record(sample: Sample) -> None:
    content = bytearray(sample.content)
    last = sample.places[-1]
    for bit in range(sample.end * 8, len(content) * 8):
        content[bit // 8] ^= 1 << bit % 8
        reached, verdict = verdict_from(content, last, len(sample.records))
        assert reached == len(sample.records)
        assert verdict == Torn(sample.end, bit // 8 + 1)
        content[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("part", range(SLICES))
def test_a_flipped_bit_never_passes_the_checksum_of_its_frame(sample: Sample, part: int) -> None:
    """Random access checks one frame by itself, so its checksum must cover all of it."""
    for place in my_share(sample, part)[:2]:
        frame = bytearray(sample.content[place.offset : place.end])
        for bit in range(len(frame) * 8):
            frame[bit // 8] ^= 1 << bit % 8
            assert flaw_at(frame, 0, SEED) is not None, bit
            frame[bit // 8] ^= 1 << bit % 8


def swapped(sample: Sample, first: int, second: int) -> bytes:
    one, two = sample.places[first], sample.places[second]
    content = sample.content
    return b"".join(
        (
            content[: one.offset],
            content[two.offset : two.end],
            content[one.end : two.offset],
            content[one.offset : one.end],
            content[two.end :],
        )
    )


def test_frames_that_are_swapped_doubled_or_missing_are_damage(
    sample: Sample, dice: Random
) -> None:
    content, start = sample.content, sample.places[0]
    for _ in range(60):
        first, second = sorted(dice.sample(range(len(sample.places)), 2))
        one, two = sample.places[first], sample.places[second]
        doubled = content[: two.offset] + content[one.offset : one.end] + content[two.offset :]
        missing = content[: one.offset] + content[one.end :]
        for hurt in (swapped(sample, first, second), doubled, missing):
            _, verdict = verdict_from(hurt, start, 0)
            assert isinstance(verdict, Damage), (first, second)


def test_a_frame_of_another_log_is_never_taken_for_ours(sample: Sample) -> None:
    other = seed_of(b"another log's id")
    assert scan(sample.content, 0, genesis(LOG_ID), other).end == 0
    assert later_frame(sample.content, 1, 1, other) is None


def test_a_torn_frame_that_holds_a_copy_of_the_log_is_still_torn(sample: Sample) -> None:
    """A record may be a copy of the log's own past; its frames prove nothing about the tail."""
    edge = sample.places[-1].after
    frame, _ = encode(edge, SEED, [sample.content[: sample.end]], epoch=9, at=0, wall=0)
    torn = sample.content[: sample.end] + frame[:-1]
    last = Place(sample.end, len(torn), edge, edge)
    reached, verdict = verdict_from(torn, last, len(sample.records))
    assert (reached, type(verdict)) == (len(sample.records), Torn)


def test_bytes_beyond_the_reach_of_one_frame_are_damage(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.wal.recovery.FRAME_CAP", TAIL_BYTES // 2)
    last = sample.places[-1]
    for offset, expected in ((TAIL_BYTES // 2 - 1, Torn), (TAIL_BYTES // 2, Damage)):
        content = bytearray(sample.content)
        content[sample.end + offset] = 1
        assert isinstance(verdict_from(content, last, 0)[1], expected)


def test_anything_behind_the_end_of_an_older_segment_is_damage(sample: Sample) -> None:
    content = bytearray(sample.content)
    content[sample.end + 5] = 1
    found = scan(bytes(content), 0, genesis(LOG_ID), SEED)
    verdict = judge(bytes(content), found, SEED, acked=0, hint_is_whole=True, is_newest=False)
    assert isinstance(verdict, Damage)


@given(
    st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=5), min_size=1, max_size=8),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1),
)
def test_what_is_encoded_is_what_is_decoded(groups: list[list[bytes]], at: int, wall: int) -> None:
    edge, content = genesis(LOG_ID), b""
    before = edge.chain
    for epoch, batch in enumerate(groups):
        frame, after = encode(edge, SEED, batch, epoch=epoch, at=at, wall=wall)
        assert extent_at(frame, 0) == len(frame) > HEADER_BYTES
        assert decode(content + frame, len(content), SEED, before) == Frame(
            edge.position + 1, epoch, at, wall, edge.position, tuple(batch), after.chain
        )
        content += frame
        edge, before = after, after.chain
    assert scan(content, 0, genesis(LOG_ID), SEED).edge == edge


# Through a full opening: one of each kind.


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

"""Every byte cut, every byte zeroed, every bit flipped: always seen, never a silently shorter log.

The judgement of a segment is pure, so it is tried here on bytes alone, for every byte and bit. Each
try begins at the frame that was hurt; `test_scanning_is_a_fold` says why that is the same.
`test_wal_rot.py` tries one of each kind through a full opening.
"""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.testing.histories import records_of_every_type
from holdfast.wal.frames import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
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
from holdfast.wal.recovery import Clean, Damage, Torn, judge
from holdfast.wal.segments import segment_name

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
    """300 records and more: real ones with events of every type, and some that are all zeros,
    because zeros are what a cut leaves."""
    records = [
        bytes(dice.choice((0, 1, 7, 20, 40))) if dice.random() < 0.1 else record
        for record in records_of_every_type(280, dice)
    ]
    while records:
        size = dice.randint(1, 4)
        yield records[:size]
        del records[:size]


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
    assert 15_000 < sample.end < 50_000
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
            reached, verdicts = verdicts_from(hurt, place, hints(sample)[:2])
            assert reached == expected
            for acked, verdict in zip(hints(sample)[:2], verdicts, strict=True):
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


def test_a_tail_made_to_look_like_endless_frames_is_refused_in_good_time(sample: Sample) -> None:
    """Each of these claims all that follows it; checking every claim would take hours."""
    edge = sample.places[-1].after
    size = 30_000 * HEADER_BYTES
    claims = [
        HEADER.pack(MAGIC, size - at - HEADER_BYTES, 2**40, 1, 0, 9, 0, 0, 0, bytes(16), 0)
        for at in range(0, size, HEADER_BYTES)
    ]
    content = b"\1" + b"".join(claims)
    place = Place(0, len(content), edge, edge)
    assert isinstance(verdict_from(content, place, 0)[1], Damage)


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

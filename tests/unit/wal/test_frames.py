"""Frames by themselves: what each check is for, one forged frame at a time.

The forgeries have a right checksum and a right chain, as a buggy writer's would.
"""

from hashlib import blake2b
from zlib import crc32

import pytest

from holdfast.core.errors import BrokenInvariant
from holdfast.wal.frames import (
    FIELDS,
    HEADER_BYTES,
    LENGTH,
    MAGIC,
    MARK_EVERY,
    PAYLOAD_CAP,
    Edge,
    decode,
    encode,
    flaw_at,
    genesis,
    later_frame,
    payload_of,
    scan,
    seed_of,
)

LOG_ID = b"0123456789abcdef"
SEED = seed_of(LOG_ID)
EDGE = Edge(10, 3, b"c" * 16)


def forged(
    *,
    first: int = 11,
    count: int = 1,
    flags: int = 0,
    epoch: int = 3,
    acked: int = 10,
    payload: bytes = payload_of([b"record"]),
) -> bytes:
    fields = FIELDS.pack(MAGIC, len(payload), first, count, flags, epoch, 0, 0, acked)
    chain = blake2b(EDGE.chain + fields + payload, digest_size=16).digest()
    crc = crc32(payload, crc32(fields + chain, SEED))
    return fields + chain + LENGTH.pack(crc) + payload


def test_an_honest_forgery_passes() -> None:
    found = scan(forged(), 0, EDGE, SEED)
    assert found.edge[:2] == (11, 3)
    assert found.tail == 0
    frame = decode(forged(), 0, SEED, EDGE.chain)
    assert not isinstance(frame, str)
    assert frame.records == (b"record",)


@pytest.mark.parametrize("first", [0, 1, 10, 12, 2**64 - 1])
def test_a_gap_or_a_step_back_in_positions_is_a_flaw(first: int) -> None:
    found = scan(forged(first=first, acked=0), 0, EDGE, SEED)
    assert (found.end, found.edge) == (0, EDGE)
    assert f"position {first} where 11 is due" in found.flaw


def test_a_frame_without_records_is_a_flaw() -> None:
    assert scan(forged(count=0, payload=b""), 0, EDGE, SEED).end == 0


def test_an_epoch_that_goes_back_is_a_flaw_and_one_that_goes_on_is_not() -> None:
    assert "epoch 2 after 3" in scan(forged(epoch=2), 0, EDGE, SEED).flaw
    assert scan(forged(epoch=9), 0, EDGE, SEED).edge.epoch == 9


def test_a_frame_that_acknowledges_itself_is_a_flaw() -> None:
    assert "acked 11" in scan(forged(acked=11), 0, EDGE, SEED).flaw


def test_a_flag_nobody_knows_is_a_flaw() -> None:
    assert scan(forged(flags=1), 0, EDGE, SEED).end == 0


def test_a_chain_that_does_not_continue_is_a_flaw() -> None:
    other = EDGE._replace(chain=b"d" * 16)
    assert "chain" in scan(forged(), 0, other, SEED).flaw
    assert "chain" in str(decode(forged(), 0, SEED, other.chain))
    assert not isinstance(decode(forged(), 0, SEED, None), str)


@pytest.mark.parametrize(
    "payload",
    [
        payload_of([b"a"]) + b"x",
        payload_of([b"a", b"b"]),
        LENGTH.pack(5) + b"four",
        LENGTH.pack(2**32 - 1),
        b"",
    ],
)
def test_records_that_do_not_fill_the_payload_are_a_flaw(payload: bytes) -> None:
    assert "records where it claims 1" in str(decode(forged(payload=payload), 0, SEED, None))


def test_a_claimed_length_is_never_trusted_beyond_what_is_there() -> None:
    for length in (1000, PAYLOAD_CAP + 1, 2**32 - 1):
        content = bytearray(forged())
        content[4:8] = LENGTH.pack(length)
        assert f"claims {length} bytes" in scan(bytes(content), 0, EDGE, SEED).flaw
        assert f"claims {length} bytes" in str(flaw_at(bytes(content), 0, SEED))


def test_marks_are_sparse_and_right() -> None:
    content, edge, offsets = b"", genesis(LOG_ID), {}
    while len(content) < 10 * MARK_EVERY:
        frame, after = encode(edge, SEED, [b"x" * 200], epoch=1, at=0, wall=0)
        offsets[after.position] = len(content)
        content, edge = content + frame, after
    marks = scan(content, 0, genesis(LOG_ID), SEED).marks
    assert 8 <= len(marks) <= 10
    assert all(offsets[position] == offset for position, offset in marks)


def test_only_a_frame_of_this_position_or_later_proves_that_bytes_were_safe() -> None:
    junk = b"j" * 50
    content = junk + forged()
    assert later_frame(content, 0, 11, SEED) == len(junk)
    assert later_frame(content, 0, 5, SEED) == len(junk)
    assert later_frame(content, 0, 12, SEED) is None
    assert later_frame(content, len(junk), 12, SEED) == len(junk)
    assert later_frame(content[:-1], 0, 5, SEED) is None
    assert later_frame(content[: len(junk) + HEADER_BYTES - 1], 0, 5, SEED) is None


def test_a_batch_beyond_the_cap_or_empty_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.wal.frames.PAYLOAD_CAP", 100)
    encode(EDGE, SEED, [b"x" * 46, b"x" * 46], epoch=3, at=0, wall=0)
    for records in ([], [b"x" * 46, b"x" * 47]):
        with pytest.raises(BrokenInvariant):
            encode(EDGE, SEED, records, epoch=3, at=0, wall=0)


def test_two_logs_begin_with_different_heads() -> None:
    assert genesis(LOG_ID).chain != genesis(b"f" * 16).chain

"""The slate and the frames: what a child has said is read back whole, or not at all."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.ids import LeaseId
from holdfast.worker.frames import (
    TO_PARENT,
    Broke,
    Inbox,
    Ran,
    array_of,
    decode_outcomes,
    encode,
    frame,
)
from holdfast.worker.slate import NO_LEASE, SIZE, Slate, shared_file

Ends = tuple[Slate, Slate]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """The child's slate and the parent's: two views of one memory."""
    descriptor = shared_file("test")
    child, parent = Slate(descriptor), Slate(os.dup(descriptor))
    yield child, parent
    child.close()
    parent.close()


def test_a_fresh_slate_is_blank(ends: Ends) -> None:
    assert ends[1].unsent() == (0, b"")
    assert ends[1].named() == (NO_LEASE, 0)


def test_the_parent_reads_what_the_child_wrote(ends: Ends) -> None:
    child, parent = ends
    said = [Ran(LeaseId(1), 5, b"one"), Broke(LeaseId(2), 6, "error", "trace", None)]
    for outcome in said:
        assert child.add(encode(outcome))
    child.name(2**63 + 1, 77)
    assert decode_outcomes(array_of(*parent.unsent())) == said
    assert parent.named() == (2**63 + 1, 77)


def test_a_full_slate_refuses_and_keeps_what_it_has(ends: Ends) -> None:
    child, parent = ends
    assert not child.add(b"x" * SIZE)
    count = 0
    while child.add(b"x" * 100_000):
        count += 1
    assert parent.unsent() == (count, b"x" * 100_000 * count)
    child.clear()
    assert child.add(b"again")
    assert parent.unsent() == (1, b"again")


def test_a_wiped_slate_is_blank_for_the_next_child(ends: Ends) -> None:
    child, parent = ends
    child.add(b"old")
    child.name(5, 6)
    parent.wipe()
    assert parent.unsent() == (0, b"")
    assert parent.named() == (NO_LEASE, 0)
    heir = Slate(os.dup(parent.descriptor))
    heir.add(b"new")
    assert parent.unsent() == (1, b"new")
    heir.close()


KINDS = st.sampled_from(sorted(TO_PARENT))


@settings(max_examples=30)
@given(
    bodies=st.lists(st.tuples(KINDS, st.binary(max_size=9)), max_size=5),
    cuts=st.lists(st.integers(1, 7), min_size=1, max_size=5),
    lost=st.integers(1, 5),
)
def test_frames_come_out_whole_however_they_are_cut(
    bodies: list[tuple[int, bytes]], cuts: list[int], lost: int
) -> None:
    stream = b"".join(frame(kind, body) for kind, body in bodies)
    # A death cuts the last frame short; what came before it counts.
    stream += frame(min(TO_PARENT), b"12345")[:-lost]
    inbox, found, place = Inbox(), [], 0
    while stream:
        size = cuts[place % len(cuts)]
        place += 1
        inbox.add(stream[:size])
        stream = stream[size:]
        found += list(inbox.frames())
    assert found == bodies

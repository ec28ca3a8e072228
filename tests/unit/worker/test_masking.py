"""Secrets are covered, wherever the pieces of output are cut."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.worker.masking import Mask


def test_what_has_no_secrets_is_left_alone() -> None:
    assert Mask().cover(b"hello", is_all=False) == b"hello"
    assert Mask(["", "abc"]).cover(b"abc", is_all=False) == b"abc"


def test_a_secret_is_covered_by_as_many_stars() -> None:
    mask = Mask(["hunter2", "hunter2hunter2"])
    assert mask.cover(b"it is hunter2!", is_all=True) == b"it is *******!"
    assert mask.cover(b"hunter2hunter2.", is_all=True) == b"**************."


def test_the_beginning_of_a_secret_waits_for_the_rest() -> None:
    mask = Mask(["hunter2"])
    assert mask.cover(b"it is hun", is_all=False) == b"it is "
    assert mask.cover(b"hun", is_all=False) == b""
    assert mask.cover(b"it is hun", is_all=True) == b"it is hun"


@given(
    parts=st.lists(st.sampled_from(["abab", "abac", "a", "b", "c", "x"]), max_size=12),
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=40),
)
def test_no_way_to_cut_it_lets_a_secret_through(parts: list[str], sizes: list[int]) -> None:
    text = "".join(parts).encode()
    mask = Mask(["abab", "abacx"])
    told, at = b"", 0
    for size in [*sizes, *[len(text) + 1] * (len(text) + 1)]:
        is_all = at + size >= len(text)
        piece = mask.cover(text[at : at + size], is_all=is_all)
        told += piece
        at += len(piece)
        if is_all:
            break
    assert len(told) == len(text)
    assert b"abab" not in told
    assert b"abacx" not in told
    assert all(mine in (theirs, ord("*")) for mine, theirs in zip(told, text, strict=True))

"""Bytes that were right and are not any more, from dice that a test owns; and a watch over what
reads them: it comes back soon, and never takes more memory than bytes of that size can ask for."""

import signal
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from types import FrameType
from typing import Final

LARGEST_BYTES: Final = 64 * 1024 * 1024
LONGEST_S: Final = 1.0
"""Of the processor's time: a busy machine is no bug."""

HOSTILE: Final = (
    b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01", b"\xcf" + b"\xff" * 8,
    b"\xd3\x80" + b"\0" * 7, b"\xcb\x7f\xf8" + b"\0" * 6, b"\xc1", b"\x91" * 5_000,
    b"[" * 5_000, b'{"a":' * 2_000, b"1e999", b"-0", b"9" * 400, b'"\\ud800"', b"\xff\xfe", b"\0",
    b"NaN", b"null", b'"' + b"x" * 10_000 + b'"', b"\xc0", b"\x80", b"\xed\xa0\x80",
)  # fmt: skip
"""Lengths that nothing has, nesting without end, numbers that do not fit, text that is none."""


def mutated(data: bytes, dice: Random) -> bytes:
    """The same with one to four changes."""
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        data = dice.choice(CHANGES)(data, dice)
    return data


def _place(data: bytes, dice: Random) -> int:
    return dice.randrange(len(data) + 1)


def _flip(data: bytes, dice: Random) -> bytes:
    if not data:
        return b"\0"
    changed = bytearray(data)
    changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, dice: Random) -> bytes:
    if not data:
        return b"\xff"
    changed = bytearray(data)
    changed[dice.randrange(len(data))] = dice.choice((0, 1, 0x7F, 0x80, 0xC1, 0xFF))
    return bytes(changed)


def _cut(data: bytes, dice: Random) -> bytes:
    return data[: _place(data, dice)]


def _drop(data: bytes, dice: Random) -> bytes:
    first = _place(data, dice)
    return data[:first] + data[first + dice.randrange(1, 9) :]


def _insert(data: bytes, dice: Random) -> bytes:
    at = _place(data, dice)
    return data[:at] + dice.choice(HOSTILE) + data[at:]


def _replace(data: bytes, dice: Random) -> bytes:
    at = _place(data, dice)
    hostile = dice.choice(HOSTILE)
    return data[:at] + hostile + data[at + len(hostile) :]


def _repeat(data: bytes, dice: Random) -> bytes:
    first, second = sorted((_place(data, dice), _place(data, dice)))
    return data[:second] + data[first:second] + data[second:]


def _swap(data: bytes, dice: Random) -> bytes:
    a, b, c = sorted(_place(data, dice) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def _noise(data: bytes, dice: Random) -> bytes:
    return dice.randbytes(dice.randrange(64))


CHANGES: Final[Sequence[Callable[[bytes, Random], bytes]]] = (
    _flip, _flip, _overwrite, _overwrite, _cut, _drop, _insert, _replace, _repeat, _swap, _noise,
)  # fmt: skip


class TooMuch(Exception):
    """Reading a few bytes took more time or memory than it may."""


@contextmanager
def bounded(what: Callable[[], str]) -> Iterator[None]:
    """Whatever happens in here takes a second of the processor and 64 MiB at most; `what` says
    what it was. Memory is counted where the caller has `tracemalloc` on."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TooMuch(f"more than {LONGEST_S:g} s: {what()}")

    former = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    counts = tracemalloc.is_tracing()
    before = tracemalloc.get_traced_memory()[0] if counts else 0
    if counts:
        tracemalloc.reset_peak()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, former)
    if counts and tracemalloc.get_traced_memory()[1] - before > LARGEST_BYTES:
        raise TooMuch(f"more than {LARGEST_BYTES} bytes: {what()}")

"""What a commit may owe: checked before it is committed, since nothing can be taken back after."""

from collections.abc import Container
from typing import Final

from holdfast.core.owed import BLOCK, EFFECT, FILE
from holdfast.core.reports import Done

ENTRIES_MOST: Final = 1_000
BODY_BYTES_MOST: Final = 64 * 1024
KEY_MOST: Final = 4_096
"""Paths are keys too."""


def promise_problem(done: Done, sinks: Container[str], *, is_gang: bool) -> str:
    """Why a commit cannot owe what it says it owes; nothing where it can."""
    owed = done.owed
    if len(owed) > ENTRIES_MOST:
        return f"it owes {len(owed)} entries; {ENTRIES_MOST} are the most"
    for place, entry in enumerate(owed):
        if entry.kind == EFFECT:
            if entry.place not in sinks:
                return f"there is no sink called {entry.place!r}"
        elif entry.kind == BLOCK:
            if is_gang:
                return "a gang commits together: no member may commit early"
            if place != len(owed) - 1:
                return "nothing may follow the block of an early commit"
        elif entry.kind != FILE or not entry.place or not entry.key:
            return f"nobody knows how to deliver a {entry.kind!r} to {entry.place!r}"
        if len(entry.body) > BODY_BYTES_MOST:
            return f"an entry has {len(entry.body)} bytes; {BODY_BYTES_MOST} are the most"
        if len(entry.key) > KEY_MOST:
            return f"a key has {len(entry.key)} characters; {KEY_MOST} are the most"
    return ""

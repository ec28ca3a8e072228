"""Where a log comes from: the logs it was forked from, and what was lost on the way.

A log that was forked or salvaged is a new log with a new id. What was committed before keeps the
id of the log that committed it, so that old debts keep their keys and new ones cannot collide.
"""

from typing import Final

from msgspec import Struct

from holdfast.core.ids import Position

FORK: Final = "fork"
SALVAGE: Final = "salvage"
KINDS: Final = (FORK, SALVAGE)

LEASE_LEAP: Final = 1_000_000
"""So many lease ids are left out where a log is forked: whoever still holds one of the former log,
granted meanwhile or in a part that nobody can read, never meets its number again."""


class Hole(
    Struct, frozen=True, array_like=True, forbid_unknown_fields=True
):
    """Where the former log could not be read: the byte, and the positions that are lost. `last`
    zero: nobody knows how many there were; `first` zero: none, only history that a snapshot stands
    for. A fork has no hole."""

    file: str = ""
    offset: int = 0
    first: int = 0
    last: int = 0
    why: str = ""


class Ancestor(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """A log that this one goes back to, for everything up to `until`."""

    log_id: str
    until: Position


def suspended_line(suspended: str) -> str:
    """That the log gives nothing out, in words; empty where it does."""
    return f"suspended since its {suspended}: `holdfast log resume`" if suspended else ""


def log_at(log_id: str, lineage: tuple[Ancestor, ...], position: Position) -> str:
    """The log that wrote this position: an ancestor, or the one that is written now."""
    return next((a.log_id for a in lineage if position <= a.until), log_id)

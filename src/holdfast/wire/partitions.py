"""What a member of a data grid answers when it is asked about its partitions.

A JSON object with `partitions`, a list of objects: `name`, how many `members` the partition has,
how many of them are `ready`, and the name of its `leader`, which may be missing. A member tells of
the partitions it knows; whatever else is in the answer is passed over. What is no such answer says
nothing at all: half of it might be the wrong half.
"""

from typing import Final

import msgspec
from msgspec import Struct

from holdfast.core.unreadable import UNREADABLE
from holdfast.wire.servicing import PartitionClaim, claims_problem

ANSWER_BYTES_MAX: Final = 1 << 18
"""Of one answer; a thousand partitions take less than half of it."""


class Told(Struct, frozen=True, kw_only=True, gc=False):
    """One entry, as it is written."""

    name: str | int
    members: int
    ready: int
    leader: str | int | None = None


class Answer(Struct, frozen=True):
    partitions: tuple[Told, ...]


_DECODE: Final = msgspec.json.Decoder(Answer).decode


def read_partitions(content: bytes) -> tuple[PartitionClaim, ...]:
    """What is told there. `ValueError`: it cannot be read, or cannot be true; one line."""
    try:
        told = _DECODE(content).partitions
    except UNREADABLE as error:
        message = str(error) or type(error).__name__
        raise ValueError(f"no answer about partitions: {message[:200]}") from None
    claims = tuple(
        PartitionClaim(
            str(each.name),
            each.members,
            each.ready,
            "" if each.leader is None else str(each.leader),
        )
        for each in told
    )
    problem = claims_problem(claims)
    if problem:
        raise ValueError(problem)
    return claims


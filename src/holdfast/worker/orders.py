"""What the agent's thread asks of the keeper of the children."""

from msgspec import Struct

from holdfast.core.ids import LeaseId
from holdfast.wire.exchange import Run
from holdfast.worker.lanes import Entry


class Assign(Struct, frozen=True):
    """Tasks for the lane their run names."""

    run: Run
    entries: list[Entry]


class Recall(Struct, frozen=True):
    """Give these back if they have not begun."""

    lease_ids: frozenset[LeaseId]


class Stop(Struct, frozen=True):
    """Nobody wants this one any more, begun or not. `grace_s` None: the usual. One that
    `is_wanted` all the same comes back when it has ended."""

    lease_id: LeaseId
    grace_s: float | None = None
    is_wanted: bool = False


class Close(Struct, frozen=True):
    """Start nothing more; what runs may end by itself until `deadline` on the monotonic clock."""

    deadline: float


class Retire(Struct, frozen=True):
    """Let this lane take nothing from others, until it is assigned something again."""

    slot: int


class Answer(Struct, frozen=True):
    """What came of an early commit: why it was not accepted, if so."""

    lease_id: LeaseId
    why: str


Order = Assign | Recall | Stop | Close | Retire | Answer

"""Children whose words are no words of ours.

A task shares its process with us, and may write where only we should: into any descriptor it finds,
or into memory. What it says then is not believed, and the child is ended. That is the doing of the
task that ran, so it has failed; its neighbours go on elsewhere.
"""

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from holdfast.core.ids import LeaseId
from holdfast.core.unreadable import UNREADABLE
from holdfast.worker import frames
from holdfast.worker.fates import fate_of
from holdfast.worker.frames import Broke, Garbled, Ran, array_of
from holdfast.worker.lanes import Entry
from holdfast.worker.slate import NO_LEASE, Slate
from holdfast.worker.troubles import Trouble

SCRIBBLED: Final = Trouble(
    "it wrote into a descriptor that is not its own, and its process could not be understood any "
    "more", "", None,
)  # fmt: skip


class Child(Protocol):
    is_garbled: bool

    def notices(self) -> Iterator[tuple[int, bytes]]: ...


def heard(child: Child, take: Callable[[int, bytes], None]) -> bool:
    """Take in what a child says. False where it cannot be understood, and never will be."""
    try:
        for kind, body in child.notices():
            take(kind, body)
    except (Garbled, *UNREADABLE):
        child.is_garbled = True
    return not child.is_garbled


def unsent_on(slate: Slate) -> list[Ran | Broke]:
    """The outcomes that a dead child has not sent any more; none where they cannot be read."""
    count, unsent = slate.unsent()
    try:
        return frames.decode_outcomes(array_of(count, unsent))
    except UNREADABLE:
        return []


def blamed(slate: Slate, inside: dict[LeaseId, Entry], *, is_garbled: bool) -> Entry | None:
    """The task that was running when its child ended, taken out of those it had. A child that
    cannot be understood names nobody; it ran them in their order, so it was the first."""
    lease = LeaseId(slate.named()[0])
    if lease != NO_LEASE and lease in inside:
        return inside.pop(lease)
    return inside.pop(next(iter(inside))) if is_garbled and inside else None


def fate(code: int, crash: str, *, is_garbled: bool) -> tuple[str, Trouble]:
    """What became of that task, and why."""
    return ("failed", SCRIBBLED) if is_garbled else fate_of(code, crash)

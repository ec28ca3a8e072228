"""Whether a data grid may change its size without losing a majority of what holds its partitions.

A partition answers as long as more than half of its members do, and members learn of a change by
talking to a majority. So the grid grows and shrinks by one member at a time, only while every
partition is healthy and led, and never so that what is left is less than a majority of what was
there.
"""

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.observed import PartitionHealth


def majority(members: int) -> int:
    """How many of so many must be up."""
    return members // 2 + 1


def spare(members: int) -> int:
    """How many of so many may be away at once."""
    return max(0, members - majority(members))


def unwell(partitions: PartitionHealth | None) -> str:
    """Why partitions do not count as healthy; nothing where they do."""
    if partitions is None:
        return "the health of the partitions is not known"
    if partitions.error:
        return f"the health of the partitions is not known: {partitions.error}"
    if not 0 < partitions.total <= partitions.healthy:
        return f"{partitions.healthy} of {partitions.total} partitions are healthy"
    return ""


def unled(partitions: PartitionHealth | None, *, steady_ms: int, now: Instant) -> str:
    """Why the leader does not count as stable; nothing where it does."""
    if partitions is None or partitions.leader_since == NEVER:
        return "no leader is known"
    if now - partitions.leader_since < steady_ms:
        return "the leader changed a short while ago"
    return ""


def outvoted(*, actual: int, target: int, ready: int) -> str:
    """Why the next step towards a target would cost a majority; nothing where it does not.

    It may well be a ready member that leaves, so one fewer than the ready ones is counted with.
    """
    if target >= actual:
        return ""
    left = min(actual, ready) - 1
    if left < majority(actual):
        return f"{left} of {actual} replicas would be left, no majority"
    return ""


def one_step(actual: int, target: int) -> int:
    """The next size on the way: one member joins or leaves at a time."""
    return actual + (target > actual) - (target < actual)

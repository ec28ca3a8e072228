"""Whether a data grid may change its size without losing a majority of what holds its partitions.

A partition answers as long as more than half of its members do, and members learn of a change by
talking to a majority. So the grid grows and shrinks by one member at a time, only while every
partition is healthy and led, and never so that what is left is less than a majority of what was
there.
"""

from holdfast.core.ids import Instant
from holdfast.runtimes.observed import Partition


def majority(members: int) -> int:
    """How many of so many must be up."""
    return members // 2 + 1


def spare(members: int) -> int:
    """How many of so many may be away at once."""
    return max(0, members - majority(members))


def unwell(
    partitions: tuple[Partition, ...] | None, *, declared: int = 0, doubt: str = ""
) -> str:
    """Why partitions do not count as healthy; nothing where they do. `declared` is how many there
    should be, and `doubt` why not all is known of them."""
    if not partitions:
        return f"the health of the partitions is not known{': ' + doubt if doubt else ''}"
    if why := unwhole(partitions, declared):
        return why
    return f"not every member tells of its partitions: {doubt}" if doubt else ""


def unwhole(partitions: tuple[Partition, ...], declared: int) -> str:
    """Why what is told of partitions is not well; nothing where it is."""
    for partition in partitions:
        if not partition.is_green:
            return f"partition {partition.name} has {partition.ready} of {partition.members} ready"
    if len(partitions) < declared:
        return f"{len(partitions)} of {declared} partitions are told of"
    return ""


def unled(partitions: tuple[Partition, ...] | None, *, steady_ms: int, now: Instant) -> str:
    """Why leaders do not count as stable; nothing where they do."""
    for partition in partitions or ():
        if not partition.leader:
            return f"partition {partition.name} has no leader"
        if now - partition.leader_since < steady_ms:
            return f"partition {partition.name} has a new leader, {partition.leader}"
    return ""


def outvoted(partitions: tuple[Partition, ...] | None, *, actual: int, target: int) -> str:
    """Why the next step towards a target would cost a majority; nothing where it does not.

    Whoever leaves may be a member of every partition, and a ready one.
    """
    if target >= actual:
        return ""
    if actual - 1 < majority(actual):
        return f"{actual - 1} of {actual} replicas are no majority"
    for partition in partitions or ():
        left = partition.ready - 1
        if left < majority(partition.members):
            return f"partition {partition.name} would have {left} of {partition.members} left"
    return ""


def one_step(actual: int, target: int) -> int:
    """The next size on the way: one member joins or leaves at a time."""
    return actual + (target > actual) - (target < actual)

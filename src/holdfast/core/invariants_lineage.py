"""What must hold of where a log comes from."""

from collections.abc import Iterator

from holdfast.core.lineage import KINDS
from holdfast.core.state import State
from holdfast.core.violation import Finding


def lineage(state: State) -> Iterator[Finding]:
    """L8: the logs before this one follow each other without a gap, no log comes twice, and only
    one that has ancestors can be suspended."""
    before = 0
    for ancestor in state.lineage:
        if not before < ancestor.until < state.position:
            yield ancestor.log_id, f"it ends at {ancestor.until}, after {before}"
        before = ancestor.until
    names = [*(ancestor.log_id for ancestor in state.lineage), state.log_id]
    if len(set(names)) < len(names):
        yield state.log_id, "a log is its own ancestor"
    if state.suspended and (state.suspended not in KINDS or not state.lineage):
        yield state.log_id, f"it is suspended by {state.suspended}"


def suspension(state: State) -> Iterator[Finding]:
    """L9: nothing is held of a suspended log."""
    if state.suspended:
        for holder in state.holders.values():
            for lease_id in holder.leases:
                yield f"lease {lease_id}", "it is held of a log that is suspended"

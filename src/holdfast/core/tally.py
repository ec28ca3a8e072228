"""A few numbers about a state that cost next to nothing to take and that two states with the same
history share: enough to notice that memory and the log have parted, without freezing either."""

from holdfast.core.state import State


def tally(state: State) -> dict[str, int]:
    """The numbers by their names. What they count changes with nearly every record."""
    return {
        "position": state.position,
        "time": state.time,
        "epoch": state.epoch,
        "next_lease": state.next_lease,
        "next_job": state.next_job,
        "jobs": len(state.jobs),
        "open_jobs": len(state.open_jobs),
        "finished": len(state.finished),
        "leases": sum(len(holder.leases) for holder in state.holders.values()),
        "keys": len(state.keys),
        "requests": len(state.requests),
        "tokens": len(state.tokens),
        "schedules": len(state.schedules),
        "circuits": len(state.circuits),
        "resources": len(state.resources),
        "cordoned": len(state.cordoned),
        "limits": len(state.limits),
    }

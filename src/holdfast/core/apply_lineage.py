"""Folds of the events about the log itself."""

from holdfast.core import events as e
from holdfast.core.errors import BrokenInvariant, ImpossibleEvent
from holdfast.core.ids import Instant, LeaseId, Position
from holdfast.core.lineage import Ancestor
from holdfast.core.state import State


def log_forked(state: State, event: e.LogForked, position: Position, at: Instant) -> None:
    if event.origin != state.log_id or event.at_position != state.position:
        raise BrokenInvariant(
            f"log {event.log_id} goes on from {event.origin} at {event.at_position}, "
            f"and this is {state.log_id} at {state.position}"
        )
    if event.epoch <= state.epoch or event.log_id == state.log_id:
        raise BrokenInvariant(f"log {event.log_id} does not leave log {state.log_id} behind")
    state.lineage = (*state.lineage, Ancestor(event.origin, event.at_position))
    state.log_id = event.log_id
    state.epoch = event.epoch
    state.next_lease = LeaseId(max(state.next_lease, event.next_lease))
    state.next_job = max(state.next_job, event.next_job)
    state.snapshot_position = event.at_position
    state.suspended = event.kind


def log_resumed(state: State, event: e.LogResumed, position: Position, at: Instant) -> None:
    if not state.suspended:
        raise ImpossibleEvent("the log", "at work", event)
    state.suspended = ""


def repaired(state: State, event: e.Repaired, position: Position, at: Instant) -> None:
    """Nothing follows from it: what was done to tasks was recorded by itself."""

"""Numbers about what tasks went through, about the log that holds it, and its head."""

from collections.abc import Iterator

from holdfast.api.prometheus import told, told_histogram
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.serving import Served
from holdfast.core.attempt import EndReason
from holdfast.core.moves import WAITING


def moves_told(coordinator: Coordinator) -> Iterator[str]:
    """Moves of tasks, ends of attempts, and what changed nothing, since this server began."""
    refusing, measured = coordinator.refusing, coordinator.measured
    if measured is None:
        return
    tally = measured.tally
    moves = [({"from": a, "to": b}, n) for (a, b), n in sorted(tally.moves.items())]
    ends = sorted(tally.ends.items())
    retries = [({"reason": why}, n) for (why, to), n in ends if to == WAITING]
    expired = sum(n for (why, _), n in ends if why == EndReason.LEASE_EXPIRED)
    repeats = [({"command": name}, n) for name, n in sorted(refusing.repeats.items())]
    yield told("transitions_total", "counter", "Moves of tasks by from and to.", moves)
    yield told(
        "attempts_ended_total", "counter", "Attempts without a commit, by why and where to.",
        [({"reason": why, "to": to}, n) for (why, to), n in ends],
    )  # fmt: skip
    yield told("leases_expired_total", "counter", "Leases that ended by time.", expired)
    yield told("retries_total", "counter", "Attempts whose task waits again, by why.", retries)
    yield told("repeats_total", "counter", "Commands that came again, by command.", repeats)
    if refusing.notes is not None:
        dropped = refusing.notes.dropped
        yield told("refusals_unnoted_total", "counter", "Refusals too many to note.", dropped)
    states = [({"state": s}, h) for s, h in measured.durations.states.items()]
    yield told_histogram("state_seconds", "How long tasks were in a state they left.", states)


def log_told(served: Served, head: str, position: int) -> Iterator[str]:
    """How the log does. `head` is that of its chain at `position`."""
    log = served.log
    yield told("log_epoch", "gauge", "How often the log was opened.", log.epoch)
    yield told("restarts_total", "counter", "Openings after the first.", max(0, log.epoch - 1))
    yield told("replay_seconds", "gauge", "How long the log took to be told.", served.replay_s)
    yield told_histogram("sync_seconds", "How long syncs took.", [({}, log.sync_seconds)])
    yield told_histogram("frame_records", "Records written at once.", [({}, log.frame_records)])
    if head:
        labels = {"position": str(position), "head": head}
        yield told("audit_head_info", "gauge", "The head of the log's chain.", [(labels, 1)])
        yield told("audit_head_position", "gauge", "The position of that head.", position)

"""What an operator may choose about a coordinator. Everything has a default that is safe."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from holdfast.wire.contents import RESULT_BYTES_MAX
from holdfast.wire.sinks import AnySink

LEASE_TERM_MS = 15_000
"""How long a worker elsewhere holds a lease without renewing it, unless the operator says so."""


AUTO = "auto"
ASK = "ask"
RECOVERIES = (AUTO, ASK)
"""Whether an attempt that hangs is ended at once, or when somebody approves of it."""


TELL = "tell"
STOP = "stop"
ON_VIOLATION = (TELL, STOP)
"""Whether a coordinator whose check found something wrong says so and goes on, or stops."""


def one_of(told: str, names: tuple[str, ...], what: str) -> str:
    """One of these words, or a `ValueError` that names them."""
    if told not in names:
        raise ValueError(f"{what}={told!r} must be one of {', '.join(names)}")
    return told


class Settings(Struct, frozen=True, kw_only=True):
    """`snapshot_bytes`: how much log may gather before a snapshot is made of it.
    `history_bytes`: how much log is kept for looking back, at least; older segments are moved to
    `archive` where that is given, else deleted. None keeps all.
    `keep_finished`: how many finished jobs stay in memory when they have been over for an hour.
    `aging_ms`: how long work waits until it counts as one step more urgent; zero for never.
    `cordon_after`: a worker is cordoned when it fails so many different tasks that then go well
    elsewhere; zero for never.
    `result_bytes` is how large a result may be.
    `bundle_bytes` is how large a bundle of code may be, `bundles_bytes` all of them together.
    `strict`: a command that repeats what was done before is refused.
    `stall_ms`: how long something may hang until it counts as a stall; zero for never.
    `stall_recovery` is one of `RECOVERIES`, and `stall_delay_ms` how long a task waits after that.
    `check_ms`: how often everything is checked; zero for never. `on_violation` is one of
    `ON_VIOLATION`.
    `disk_low` and `disk_stop`: below how many free bytes no more work is taken, and nothing that
    anybody asks for; None for a part of the disk.
    `sinks` are where effects may go, by name."""

    snapshot_bytes: int = 64 * 1024 * 1024
    history_bytes: int | None = 256 * 1024 * 1024
    archive: Path | None = None
    keep_finished: int = 10_000
    aging_ms: int = 600_000
    cordon_after: int = 5
    result_bytes: int = RESULT_BYTES_MAX
    bundle_bytes: int = 64 * 1024 * 1024
    bundles_bytes: int = 4 * 1024 * 1024 * 1024
    strict: bool = False
    stall_ms: int = 600_000
    stall_recovery: str = AUTO
    stall_delay_ms: int = 60_000
    check_ms: int = 900_000
    disk_low: int | None = None
    disk_stop: int | None = None
    on_violation: str = TELL
    sinks: Mapping[str, AnySink] = {}

"""What a set of runs has met: a fault that never fired, or a move that was never seen, proves that
nothing was tried there."""

from collections import Counter
from typing import Final

from msgspec import Struct, field

from holdfast.coordinator.points import POINTS
from holdfast.testing.sim.auditor import all_moves
from holdfast.testing.sim.outcome import Outcome
from holdfast.testing.sim.plan import KINDS

MESSAGES: Final = (
    "message lost",
    "message doubled",
    "message delayed",
    "message cut off",
    "reply lost after processing",
)
PROGRAMS: Final = ("program crashed", "program condemned", "program deaf")
ENDS: Final = (
    *("stopped", "preempted"),
    *("failed", "killed", "lease_expired", "released", "timed_out", "undelivered", "worker_lost"),
)


PHASES: Final = (
    "applying -> progressing", "progressing -> available", "progressing -> degraded",
    "available -> progressing", "degraded -> progressing", "degraded -> available",
    "available -> deleting", "progressing -> deleting", "degraded -> deleting",
)  # fmt: skip
"""Where runtimes go in any hundreds of seeds."""


class Summary(Struct):
    """All runs together."""

    seeds: int = 0
    liveness: int = 0
    simulated_ms: int = 0
    steps: int = 0
    records: int = 0
    again: int = 0
    failed: list[Outcome] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)
    phases: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    ops: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.liveness += outcome.mode == "liveness"
        self.simulated_ms += outcome.simulated_ms
        self.steps += outcome.steps
        self.records += outcome.records
        for name in ("faults", "points", "moves", "phases", "ends", "events", "ops"):
            getattr(self, name).update(getattr(outcome, name))
        if outcome.troubles:
            self.failed.append(outcome)

    def missing(self) -> list[str]:
        """What never happened in all these runs."""
        found = [f"fault {kind}" for kind in KINDS if not self.faults[kind]]
        found += [f"fault {kind}" for kind in MESSAGES if not self.faults[kind]]
        found += [f"{kind}" for kind in PROGRAMS if not self.faults[kind]]
        found += [f"phase {move}" for move in PHASES if not self.phases[move]]
        found += [f"moment {point}" for point in POINTS if not self.points[point]]
        found += [
            f"{end} at {point}"
            for point in POINTS
            for end in ("kill", "power")
            if not self.faults[f"{end} at {point}"]
        ]
        found += [f"move {move}" for move in sorted(all_moves() - self.moves.keys())]
        return found + [f"end {end}" for end in ENDS if not self.ends[end]]

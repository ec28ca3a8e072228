"""The life of a runtime as two tables: what is so decides the phase, and which moves there are.

`PRECEDENCE` is read from the top; the first row that holds says where the runtime should be. The
row for a problem stands above readiness only where readiness cannot make up for it. `EDGES` says
where it may go from where it is; a goal that is no neighbour is reached by the way of `DETOURS`,
one step an evaluation, so that nobody who watches misses a phase.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from holdfast.runtimes.status import Phase

PENDING, APPLYING, PROGRESSING = Phase.PENDING, Phase.APPLYING, Phase.PROGRESSING
AVAILABLE, DEGRADED, DELETING = Phase.AVAILABLE, Phase.DEGRADED, Phase.DELETING


class Signals(Struct, frozen=True, kw_only=True, gc=False):
    """What is so, in the words the phase is decided by.

    `is_deleted`: somebody asked for its end. `is_unheld`: our finalizer was never put on it.
    `is_unapplied`: nothing was heard yet of an apply of this generation. `is_refused`: that apply
    failed. `is_unenforceable`: enforcement was given up. `is_ready`: all that counts is known and
    ready. `is_crashing`, `is_lacking` (a child stays missing) and `is_late` are what keeps it from
    being ready. `is_unknown`: all that is known is ready, but not all is known. `is_stuck`: it is
    degraded, and what degraded it has not changed.
    """

    is_deleted: bool = False
    is_unheld: bool = False
    is_refused: bool = False
    is_unapplied: bool = False
    is_unenforceable: bool = False
    is_ready: bool = False
    is_crashing: bool = False
    is_lacking: bool = False
    is_unknown: bool = False
    is_late: bool = False
    is_stuck: bool = False


HERE: Final = None
"""Stay where it is: nothing is known that would lead elsewhere."""

_MAY_STAY: Final = (PROGRESSING, AVAILABLE, DEGRADED)

PRECEDENCE: Final[tuple[tuple[str, Phase | None], ...]] = (
    ("is_deleted", DELETING),
    ("is_unheld", PENDING),
    ("is_refused", DEGRADED),
    ("is_unapplied", APPLYING),
    ("is_unenforceable", DEGRADED),
    ("is_ready", AVAILABLE),
    ("is_crashing", DEGRADED),
    ("is_lacking", DEGRADED),
    ("is_unknown", HERE),
    ("is_late", DEGRADED),
    ("is_stuck", DEGRADED),
)
"""The signal, and the goal it stands for. None of them: `progressing`, also out of `degraded`."""

EDGES: Final[Mapping[Phase, Mapping[Phase, str]]] = {
    PENDING: {
        PENDING: "the finalizer is not on it yet",
        APPLYING: "the finalizer is on it",
        DELETING: "its deletion was asked for",
    },
    APPLYING: {
        APPLYING: "nothing is heard of the apply yet",
        PROGRESSING: "the apply went well",
        DEGRADED: "the apply failed",
        DELETING: "its deletion was asked for",
    },
    PROGRESSING: {
        PROGRESSING: "children are not ready yet",
        AVAILABLE: "all functions and the data grid are ready",
        DEGRADED: "a conflict, a crash loop, a missing child or the time ran out",
        DELETING: "its deletion was asked for",
    },
    AVAILABLE: {
        AVAILABLE: "all is well",
        PROGRESSING: "the spec has a new generation, or readiness was lost",
        DEGRADED: "an apply failed, a crash loop, or enforcement was given up",
        DELETING: "its deletion was asked for",
    },
    DEGRADED: {
        DEGRADED: "what degraded it still holds",
        PROGRESSING: "what degraded it is gone, or the spec has a new generation",
        AVAILABLE: "all functions and the data grid are ready",
        DELETING: "its deletion was asked for",
    },
    DELETING: {DELETING: "children are left"},
}
"""Every move there is, and what it means."""

DETOURS: Final[Mapping[Phase, Mapping[Phase, Phase]]] = {
    # What was never applied by us is applied first, whatever was found.
    PENDING: {PROGRESSING: APPLYING, AVAILABLE: APPLYING, DEGRADED: APPLYING},
    APPLYING: {PENDING: APPLYING, AVAILABLE: PROGRESSING},
    # A finalizer that somebody took off is put on again, and a new generation applied, on the way.
    PROGRESSING: {PENDING: PROGRESSING, APPLYING: PROGRESSING},
    AVAILABLE: {PENDING: AVAILABLE, APPLYING: PROGRESSING},
    DEGRADED: {PENDING: DEGRADED, APPLYING: PROGRESSING},
    DELETING: dict.fromkeys((PENDING, APPLYING, PROGRESSING, AVAILABLE, DEGRADED), DELETING),
}
"""Where a goal is no neighbour: the neighbour on the way to it."""


def goal_of(phase: Phase, signals: Signals) -> Phase:
    """Where a runtime should be, whatever leads there."""
    for signal, goal in PRECEDENCE:
        if getattr(signals, signal):
            return goal or (phase if phase in _MAY_STAY else PROGRESSING)
    return PROGRESSING


def next_phase(phase: Phase, signals: Signals) -> Phase:
    """Where it is next: the goal, or the step towards it that the edges allow."""
    goal = goal_of(phase, signals)
    return goal if goal in EDGES[phase] else DETOURS[phase][goal]

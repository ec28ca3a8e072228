"""Every phase under every combination of signals: by the tables, and no other way."""

from itertools import product

import pytest

from holdfast.runtimes.phases import DETOURS, EDGES, PRECEDENCE, Signals, goal_of, next_phase
from holdfast.runtimes.status import Phase

PENDING, APPLYING, PROGRESSING = Phase.PENDING, Phase.APPLYING, Phase.PROGRESSING
AVAILABLE, DEGRADED, DELETING = Phase.AVAILABLE, Phase.DEGRADED, Phase.DELETING

NAMES = Signals.__struct_fields__
EVERY = [Signals(**dict(zip(NAMES, bits, strict=True)))
         for bits in product((False, True), repeat=len(NAMES))]  # fmt: skip


def test_the_order_names_every_signal_once():
    assert sorted(name for name, _ in PRECEDENCE) == sorted(NAMES)


def test_edges_and_detours_together_know_a_way_to_every_goal():
    for phase in Phase:
        assert set(EDGES[phase]) | set(DETOURS[phase]) == set(Phase)
        assert not set(EDGES[phase]) & set(DETOURS[phase]), "a neighbour needs no detour"
        assert set(DETOURS[phase].values()) <= set(EDGES[phase])


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_moves_along_an_edge_under_every_combination_of_signals(phase):
    for signals in EVERY:
        reached = next_phase(phase, signals)
        assert reached in EDGES[phase], signals
        # Read again, in words of its own: the first signal that is there decides.
        first = next((name for name in NAMES if getattr(signals, name)), None)
        assert reached is expected(phase, first), (signals, first)


def expected(phase: Phase, first: str | None) -> Phase:
    """The same, written as a person would tell it."""
    if phase is DELETING or first == "is_deleted":
        return DELETING
    if phase is PENDING:
        return PENDING if first == "is_unheld" else APPLYING
    if first == "is_unheld":
        return phase
    if first in ("is_refused", "is_unenforceable", "is_crashing", "is_lacking", "is_late"):
        return DEGRADED
    if first == "is_stuck":
        return DEGRADED
    if first == "is_unapplied":
        return APPLYING if phase is APPLYING else PROGRESSING
    if first == "is_ready":
        return PROGRESSING if phase is APPLYING else AVAILABLE
    if first == "is_unknown":
        return PROGRESSING if phase is APPLYING else phase
    return PROGRESSING


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not DELETING])
def test_002_55_the_order_of_the_precedence(phase):
    every = dict.fromkeys(NAMES, True)
    goals = []
    for name in NAMES:
        goals.append((name, goal_of(phase, Signals(**every))))
        every[name] = False
    stays = phase if phase in (PROGRESSING, AVAILABLE, DEGRADED) else PROGRESSING
    assert goals == [
        ("is_deleted", DELETING),
        ("is_unheld", PENDING),
        ("is_refused", DEGRADED),
        ("is_unapplied", APPLYING),
        ("is_unenforceable", DEGRADED),
        ("is_ready", AVAILABLE),
        ("is_crashing", DEGRADED),
        ("is_lacking", DEGRADED),
        ("is_unknown", stays),
        ("is_late", DEGRADED),
        ("is_stuck", DEGRADED),
    ]


@pytest.mark.parametrize(
    ("phase", "signals", "reached"),
    [
        (PENDING, Signals(is_unheld=True), PENDING),
        (PENDING, Signals(is_unapplied=True), APPLYING),
        (APPLYING, Signals(), PROGRESSING),
        (APPLYING, Signals(is_refused=True), DEGRADED),
        (PROGRESSING, Signals(is_ready=True), AVAILABLE),
        (PROGRESSING, Signals(is_late=True), DEGRADED),
        (PROGRESSING, Signals(is_crashing=True), DEGRADED),
        (PROGRESSING, Signals(is_refused=True), DEGRADED),
        (DEGRADED, Signals(), PROGRESSING),
        (AVAILABLE, Signals(is_unapplied=True), PROGRESSING),
        *((phase, Signals(is_deleted=True), DELETING) for phase in Phase),
    ],
)
def test_002_15_to_22_the_moves_of_the_design(phase, signals, reached):
    assert next_phase(phase, signals) is reached
    assert reached in EDGES[phase]

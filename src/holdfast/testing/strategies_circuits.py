"""Throws of guards against storms, and of the commands by which people move circuits."""

from random import Random

from holdfast.core import commands as c
from holdfast.core.spec import CircuitPolicy, RetryBudget
from holdfast.testing.world import World

NAMES = (
    ("function", "work"), ("function", "other"), ("sink", "mail"), ("sink", "ledger"),
    ("nonsense", "work"), ("function", ""), ("sink", "x" * 2_000),
)  # fmt: skip


def any_budget(dice: Random) -> RetryBudget:
    """None, mostly; else so small that it is met."""
    return dice.choice((RetryBudget(),) * 3 + (RetryBudget(1, 5_000), RetryBudget(2, 30_000)))


def any_circuit(dice: Random) -> CircuitPolicy:
    return dice.choice((CircuitPolicy(),) * 4 + (CircuitPolicy(1, 90), CircuitPolicy(3, 5_000)))


def open_circuit(world: World, dice: Random) -> c.Command:
    kind, name = dice.choice(NAMES)
    return c.OpenCircuit(kind=kind, name=name, reason=dice.choice(("", "it burns")))


def close_circuit(world: World, dice: Random) -> c.Command:
    kind, name = dice.choice((*world.state.circuits, *world.state.circuits, *NAMES))
    return c.CloseCircuit(kind=kind, name=name)

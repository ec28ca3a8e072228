"""The phases of a runtime as a machine to be drawn beside the others, from the table of moves."""

from typing import Final

from holdfast.core.drawing import Arrow, Machine
from holdfast.runtimes.phases import EDGES
from holdfast.runtimes.status import Phase

RUNTIME_MACHINE: Final = Machine(
    name="runtime",
    promise="A class runtime. Its phase is computed from what is declared and what is observed.",
    states=tuple(Phase),
    initial=Phase.PENDING,
    final=(Phase.AVAILABLE, Phase.DELETING),
    arrows=tuple(
        Arrow(source, target, (why,))
        for source, row in EDGES.items()
        for target, why in row.items()
        if target is not source
    ),
)
"""It may stay available for good; what is deleting ends when no child is left."""

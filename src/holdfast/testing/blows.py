"""Which step is the last of which process, for each way that Holdfast can be run."""

from typing import Final

from msgspec import Struct

from holdfast.testing.step_table import AGENT, COORDINATOR, COURIER, STEPS, TASK, Step

THREADS, PROCESSES, SERVED = "threads", "processes", "served"
ROLES: Final = {
    THREADS: dict.fromkeys((TASK, COURIER, AGENT, COORDINATOR), "program"),
    PROCESSES: {TASK: "task", COURIER: "courier", AGENT: "program", COORDINATOR: "program"},
    SERVED: {TASK: "task", COURIER: "courier", AGENT: "worker", COORDINATOR: "server"},
}
"""Who takes a step: where there are threads only, one program takes them all."""
LAST_STEPS: Final = frozenset(
    {
        "the confirmation is durable",
        "the confirmation is answered",
        "the receipts are to go",
        "the receipts are gone",
    }
)
"""Steps that may come a moment after everything is settled."""
ALSO_OF_THE_DELIVERY: Final = frozenset(
    {
        "the parcel is received",
        "the parcel is passed on",
        "what was delivered is heard",
        "the confirmation is about to be sent",
        "the confirmation is answered",
    }
)
"""Steps of a worker that the delivery process of a server takes as well."""
SIZES: Final = (2, 1, 4)


class Wanted(Struct, frozen=True):
    """Who dies where, with how many tasks under way; `early`: these commit early."""

    role: str
    step: str
    early: bool = False
    tasks: int = 2


def orders(arrangement: str, rounds: int, *, books: bool) -> list[Wanted]:
    """Every step that there is, round after round."""
    steps = [step for step in STEPS if _is_there(step, arrangement, books=books)]
    found: list[Wanted] = []
    for turn in range(rounds):
        for step in steps:
            is_early, tasks = step.kind == "early", SIZES[turn % len(SIZES)]
            role = ROLES[arrangement][step.by]
            found.append(Wanted(role, step.name, is_early, tasks))
            if arrangement == SERVED and step.name in ALSO_OF_THE_DELIVERY:
                found.append(Wanted("delivery", step.name, is_early, tasks))
    return found


def _is_there(step: Step, arrangement: str, *, books: bool) -> bool:
    if step.apart and arrangement == THREADS:
        return False
    return books or step.kind != "books"

"""Looking at everything that waits, a portion at a time."""

import time
from typing import Final

from holdfast.api.call import Call
from holdfast.coordinator.census import PORTION_TASKS, Census
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.crews import LiveCrew
from holdfast.coordinator.surroundings import Surroundings
from holdfast.core.state import State

PORTION_JOBS: Final = 2_000
PORTION_S: Final = 0.02
"""After so many jobs, or so long, others have their turn."""


async def counted(call: Call) -> Census:
    """Every job, a portion at a time, so that others have their turn between."""
    census = await call.ask(lambda coordinator: Census(surroundings(call, coordinator)))
    cursor: int | None = None

    def portion(state: State) -> int | None:
        done, began = 0, time.perf_counter()
        for looks, (position, job) in enumerate(call.service.line.before(state, cursor)):
            done += census.take(job)
            is_long = time.perf_counter() - began > PORTION_S
            if is_long or looks + 1 >= PORTION_JOBS or done >= PORTION_TASKS:
                return position
        return None

    while (cursor := await call.look(portion)) is not None:
        pass
    return census


def surroundings(call: Call, coordinator: Coordinator) -> Surroundings:
    return Surroundings(
        coordinator.state, coordinator.now(), coordinator.clock.wall(),
        LiveCrew(coordinator.state, call.service.served.exchanges),
    )  # fmt: skip

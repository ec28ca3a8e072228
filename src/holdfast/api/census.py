"""Looking at everything that waits, a portion at a time."""

from typing import Final

from holdfast.api.call import Call
from holdfast.coordinator.census import PORTION_TASKS, Census
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.crews import LiveCrew
from holdfast.coordinator.surroundings import Surroundings
from holdfast.core.state import State

PORTION_JOBS: Final = 2_000


async def counted(call: Call) -> Census:
    """Every job, a portion at a time, so that others have their turn between."""
    census = await call.ask(lambda coordinator: Census(surroundings(call, coordinator)))
    cursor: int | None = None

    def portion(state: State) -> int | None:
        done = 0
        for looks, (position, job) in enumerate(call.service.line.before(state, cursor)):
            done += census.take(job)
            if looks + 1 >= PORTION_JOBS or done >= PORTION_TASKS:
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

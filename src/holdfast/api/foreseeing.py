"""What would become of a job if it were submitted now."""

from holdfast.api.call import Answer, Call
from holdfast.api.fitting import check_fit
from holdfast.api.problems import Declined
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.crews import LiveCrew
from holdfast.coordinator.foreseeing import foreseen
from holdfast.coordinator.views import View
from holdfast.core import commands as c
from holdfast.core.decision import Refused


async def foresee(call: Call, command: c.SubmitJob) -> Answer:
    """Whether it would start, and where, or every reason why not; nothing is recorded."""

    def look(coordinator: Coordinator) -> View | Refused:
        if len(coordinator.state.jobs) >= call.service.limits.jobs:
            raise Declined("queue_full", "too many jobs wait", headers={"retry-after": "10"})
        # What was submitted under its key is found whatever has become of the workers.
        if command.key not in coordinator.state.keys or command.existing != c.KEEP:
            count = len(command.items) or command.count
            check_fit(call, coordinator, command.spec, count, must_fit=call.body.must_fit)
        crew = LiveCrew(coordinator.state, call.service.served.exchanges)
        return foreseen(coordinator, crew, command)

    told = await call.ask(look)
    if isinstance(told, Refused):
        raise Declined(told.code.value, told.message)
    return Answer({"schema": 1, **told}, 200)

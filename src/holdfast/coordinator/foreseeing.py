"""What would become of a job if it were submitted now. Nothing is recorded: the same decision is
made, the same plan, and the same reasons are given as afterwards."""

from msgspec import structs

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.crews import Crew
from holdfast.coordinator.explaining import reason_view
from holdfast.coordinator.surroundings import Surroundings
from holdfast.coordinator.views import View
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.apply_jobs import made_from
from holdfast.core.decide import decide
from holdfast.core.decision import Accepted, Refused
from holdfast.core.ids import Instant, Position
from holdfast.core.job import Job
from holdfast.scheduler.desks import Desk, obstacles
from holdfast.scheduler.explain import JobSituation, explain_job
from holdfast.scheduler.reasons import Reason


def foreseen(coordinator: Coordinator, crew: Crew, command: c.SubmitJob) -> View | Refused:
    """Whether it would start now, on how many of how many workers, or every reason why not. What
    would be refused is refused in the same words."""
    state, now = coordinator.state, coordinator.now()
    asked = structs.replace(command, request_key="", request_digest=b"")
    decision = coordinator.guard(type(asked)) or decide(state, asked, now)
    if isinstance(decision, Refused):
        return decision
    guest = _guest(decision, coordinator.state.position, now)
    if guest is None:
        return {**_nothing(), "existing": str(decision.answer)}
    around = Surroundings(state, now, coordinator.clock.wall(), crew, guest)
    whole = around.whole(guest)
    starting = sum(group.count for group in whole.groups if group.situation.is_next)
    return {
        **_nothing(),
        "tasks": guest.count,
        "starting": starting,
        "workers": _workers(around.desks or (), whole),
        "reasons": [_told(reason, guest) for reason in explain_job(_sealed(whole))],
    }


def _nothing() -> View:
    return {"existing": None, "tasks": 0, "starting": 0, "workers": None, "reasons": []}


def _guest(decision: Accepted, position: int, now: Instant) -> Job | None:
    """The job as it would be; None where one that exists was found. One that is fed later is
    looked at as if its first task were there."""
    made = next((each for each in decision.events if isinstance(each, e.JobSubmitted)), None)
    if made is None:
        return None
    event = made if made.count else structs.replace(made, count=1)
    guest = made_from(event, made.spec, Position(position + 1), now)
    if any(isinstance(each, e.JobUnblocked) for each in decision.events):
        guest.blocked = False
    return guest


def _sealed(whole: JobSituation) -> JobSituation:
    """That a job is fed further is no reason not to start."""
    return structs.replace(whole, sealed=True)


def _workers(desks: tuple[Desk, ...], whole: JobSituation) -> View:
    """How many there are, how many of them it fits on, and how many of those have room."""
    shape = next((group.situation.shape for group in whole.groups), None)
    found = [] if shape is None else [obstacles(desk, shape) for desk in desks]
    return {
        "all": len(desks),
        "fitting": sum(each.is_suited for each in found),
        "free": sum(each.has_room for each in found),
    }


def _told(reason: Reason, guest: Job) -> View:
    """A reason without the command that would be about a job which is not there."""
    words = reason.command.split()
    is_own = any(word.partition("/")[0] == guest.job_id for word in words)
    view = reason_view(structs.replace(reason, command="") if is_own else reason)
    return {**view, "tasks": reason.tasks}

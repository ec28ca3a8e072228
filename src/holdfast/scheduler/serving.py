"""What a service has to do with how one of its replicas stands, in words."""

from msgspec import Struct

from holdfast.core.ids import Instant, WorkerId
from holdfast.core.job import Job
from holdfast.core.service import Replica, service_name, shunned, used
from holdfast.core.spec import ServicePolicy
from holdfast.core.state import State
from holdfast.scheduler.reasons import Reason, sentence, span


class Serving(Struct, frozen=True):
    """How a replica that runs stands, as its worker told it: whether it can be asked, and in
    words."""

    is_ready: bool
    told: str


def restart_reason(
    task: str,
    policy: ServicePolicy,
    replica: Replica,
    not_before: Instant,
    now: Instant,
    wall: Instant,
) -> Reason:
    """It ended by itself and is begun again at `not_before`."""
    times = "once" if replica.restarts == 1 else f"{replica.restarts} times"
    row = times if replica.restarts == 1 else f"{times} in a row"
    spent = f"{used(policy, replica, now)} of {policy.restarts} restarts are in use"
    said = f"It is begun again in {span(not_before - now)}: it ended by itself {row}; {spent}"
    return Reason(
        code="restarting",
        sentence=sentence(f"{said}, and one comes back every {span(policy.refill_ms)}"),
        command=f"holdfast task reschedule {task} --now",
        until=Instant(wall + not_before - now),
    )


def shunned_by(state: State, now: Instant, job: Job) -> frozenset[WorkerId]:
    """Where replicas of this service, of whichever of its jobs, ended by themselves too often."""
    if job.service is None:
        return frozenset()
    return shunned(state.falls, service_name(job.spec), now)


def open_reason(is_service: bool) -> Reason:
    """Why a job with nothing left to do has not ended."""
    if is_service:
        return Reason(code="service", sentence="It is a service: it runs until somebody ends it.")
    said = "it is still being fed: it ends when its feeder says that there is no more"
    return Reason(code="open", sentence=sentence(said))

"""Whether those who are connected could run a job at all, asked before it is recorded."""

from holdfast.api.call import Call
from holdfast.api.problems import Declined
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.fitting import blank_seat, misfits, unknown_resource
from holdfast.core.spec import JobSpec


def check_fit(
    call: Call, coordinator: Coordinator, spec: JobSpec, count: int, *, must_fit: bool
) -> None:
    """`Declined` where it names a resource that no worker offers, or must fit and does not."""
    exchanges = call.service.served.exchanges
    if spec.placing.resources:
        refused = unknown_resource(spec, exchanges.workers.values())
        if refused is not None:
            raise Declined(refused.code.value, refused.message)
    if not must_fit:
        return
    open_to_work = [
        worker
        for name, worker in exchanges.workers.items()
        if name not in coordinator.state.cordoned
        and worker.capacity.slots
        and not worker.draining
        and exchanges.registry.is_alive(worker)
    ]
    reasons = misfits(spec, count, map(blank_seat, open_to_work))
    if reasons:
        raise Declined(
            "unschedulable",
            f"no worker that is there could run {spec.name}: {'; '.join(reasons)}. "
            "`holdfast worker list -o wide` shows what they have",
            reasons=reasons,
        )

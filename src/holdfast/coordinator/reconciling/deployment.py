"""What a service of a runtime was told to be, as a resource of its own beside the runtime.

A child has to remember what it was told: its replicas are replaced little by little, over restarts
of the coordinator, and whoever looks at it meanwhile must see what it is on its way to. What is
stored as the spec is the workload; the status is what a rollout must remember between two rounds.
"""

from typing import Final

import msgspec
from msgspec import Struct

from holdfast.core.decide.wishes import spec_problem
from holdfast.core.ids import WorkerId
from holdfast.core.placing import WORKER, Constraint, Placing, constraint_of
from holdfast.core.resource import Resource
from holdfast.core.spec import JobSpec, ServicePolicy
from holdfast.runtimes.resource import COMPONENT_LABEL, FUNCTION_LABEL, OWNER_LABEL, REVISION_LABEL
from holdfast.runtimes.status import RolloutProgress
from holdfast.runtimes.workload import PartitionCheck, Probe, Workload
from holdfast.runtimes.written import read, spell
from holdfast.wire.service import HTTP, SERVICE, ServicePlan, encode_plan, plan_problem
from holdfast.wire.service import Probe as PlannedProbe

KIND: Final = "Deployment"
FORMAT: Final = 1

LABELS: Final = (OWNER_LABEL, FUNCTION_LABEL, COMPONENT_LABEL, REVISION_LABEL)


class StoredWorkload(Struct, frozen=True, kw_only=True):
    """A workload with the format it was written in."""

    format: int
    workload: Workload


class Memory(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """`progress` is how far a rollout in steps has come. `is_scraped`: its replicas are to read
    their own metrics."""

    progress: RolloutProgress | None = None
    is_scraped: bool = False


NOTHING: Final = Memory()

_ENCODER: Final = msgspec.json.Encoder(enc_hook=spell, order="deterministic")
_WORKLOAD: Final = msgspec.json.Decoder(StoredWorkload, dec_hook=read)
_MEMORY: Final = msgspec.json.Decoder(Memory)


def encode_workload(workload: Workload) -> bytes:
    """The same workload is the same bytes: telling it twice changes nothing."""
    return _ENCODER.encode(StoredWorkload(format=FORMAT, workload=workload))


def workload_of(resource: Resource) -> Workload:
    return workload_in(resource.spec)


def workload_in(content: bytes) -> Workload:
    return _WORKLOAD.decode(content).workload


def encode_memory(memory: Memory) -> bytes:
    return b"" if memory == NOTHING else _ENCODER.encode(memory)


def memory_of(resource: Resource) -> Memory:
    return _MEMORY.decode(resource.status) if resource.status else NOTHING


def owner_of(spec: JobSpec) -> str:
    """The runtime that a service belongs to; empty where it belongs to none."""
    return next((value for key, value in spec.labels if key == OWNER_LABEL), "")


def label_of(spec: JobSpec, label: str) -> str:
    return next((value for key, value in spec.labels if key == label), "")


def bound_to(spec: JobSpec) -> WorkerId:
    """The worker that a service may only run on; empty where it is bound to none."""
    for wish in spec.placing.constraints:
        if wish.attribute == WORKER and wish.operator == "eq":
            return WorkerId(wish.values[0])
    return WorkerId("")


def job_spec(workload: Workload, worker: str = "") -> JobSpec:
    """The job whose tasks are the replicas of this workload, in this revision; with `worker` on
    that one alone."""
    restarts = workload.restarts
    return JobSpec(
        name=workload.name,
        kind=SERVICE,
        target=workload.command[0] if workload.command else "",
        cpus_milli=workload.cpus_milli,
        memory_bytes=workload.memory_bytes,
        gpus=workload.gpus,
        labels=tuple((label, workload.labels.get(label, "")) for label in LABELS),
        placing=Placing(
            constraints=(
                *map(constraint_of, workload.constraints),
                *([Constraint(WORKER, "eq", (worker,))] if worker else []),
            ),
            spread=workload.spread,
        ),
        service=ServicePolicy(
            restarts=max(1, restarts.max),
            refill_ms=max(1, int(restarts.refill)),
            delay_ms=int(restarts.delay),
            max_delay_ms=int(restarts.max_delay),
            steady_ms=int(restarts.steady),
            endpoint=workload.name,
        ),
    )


def plan_of(workload: Workload) -> bytes:
    """What each replica is, as a worker reads it."""
    return encode_plan(plan_for(workload))


def plan_for(workload: Workload) -> ServicePlan:
    return ServicePlan(
        argv=workload.command,
        env=dict(sorted(workload.env.items())),
        ports=workload.ports,
        start=_planned(workload.probes.start),
        ready=_planned(workload.probes.ready),
        live=_planned(workload.probes.live),
        metrics=workload.metrics_path,
        metrics_port=workload.metrics_port,
        grace_ms=workload.grace_ms,
        partitions=_asked_partitions(workload.partition_check),
    )


def workload_problem(workload: Workload) -> str:
    """What no worker could carry out, the field first; empty where there is nothing."""
    try:
        spec = job_spec(workload)
    except ValueError as error:
        return f"{workload.name}: placement.constraints: {error}"
    told = spec_problem(spec) or plan_problem(plan_for(workload))
    return f"{workload.name}: {told}" if told else ""


def _asked_partitions(check: PartitionCheck | None) -> PlannedProbe | None:
    if check is None:
        return None
    return PlannedProbe(
        kind=HTTP,
        path=check.path,
        port=check.port,
        period_ms=check.period_ms,
        timeout_ms=check.timeout_ms,
    )


def _planned(probe: Probe | None) -> PlannedProbe | None:
    if probe is None:
        return None
    return PlannedProbe(
        kind=probe.kind,
        path=probe.path or "/",
        port=probe.port,
        argv=probe.command,
        period_ms=probe.period_ms,
        timeout_ms=probe.timeout_ms,
        failures=probe.failures,
        successes=probe.successes,
    )



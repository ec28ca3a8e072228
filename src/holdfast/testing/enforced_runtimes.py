"""Runtimes, workloads and children for tests of what is enforced, without a template or a
substrate: functions as deployments, and a data grid where one is declared."""

from typing import Any

from holdfast.core.ids import Instant
from holdfast.runtimes.observed import Child, Known, ManagedKind, Observed, Partition
from holdfast.runtimes.resource import FUNCTION, ODGM, Resource
from holdfast.runtimes.spec import Function, Nfr, Odgm, Restarts, Rollout, Spec
from holdfast.runtimes.status import Status
from holdfast.runtimes.workload import Probes, Workload

WELL = Partition(name="p1", members=3, ready=3, leader="a", leader_since=Instant(1))


def a_runtime(
    nfr: Nfr, *functions: Function, odgm: Odgm | None = None, generation: int = 1, **status: Any
) -> Resource:
    """A runtime of these functions; of one, `hello` with two replicas, where none is given."""
    declared = functions or (Function(key="hello", replicas=2),)
    return Resource(
        name="greeter",
        generation=generation,
        version=1,
        created_at=Instant(1),
        spec=Spec(template="dev", functions=declared, odgm=odgm, nfr=nfr),
        status=Status(**status),
    )


def a_workload(kind: ManagedKind, component: str, key: str, replicas: int) -> Workload:
    return Workload(
        name=key or ODGM,
        kinds=(kind,),
        attendants=(),
        component=component,
        function_key=key,
        labels={},
        revision="r1",
        command=("true",),
        image="",
        env={},
        ports=("http",),
        probes=Probes(),
        metrics_path="",
        metrics_port="",
        replicas=replicas,
        cpus_milli=0,
        memory_bytes=0,
        gpus=0,
        constraints=(),
        spread="",
        workers_most=0,
        rollout=Rollout(),
        restarts=Restarts(),
        grace_ms=1_000,
    )


def workloads_of(resource: Resource) -> tuple[Workload, ...]:
    made = [
        a_workload(ManagedKind.DEPLOYMENT, FUNCTION, function.key, function.replicas)
        for function in resource.spec.functions
    ]
    if (odgm := resource.spec.odgm) is not None:
        made.append(a_workload(ManagedKind.ODGM_DEPLOYMENT, ODGM, "", odgm.replicas))
    return tuple(made)


def observed_at(resource: Resource, **told: int) -> Observed:
    """Every child told what was declared of it, or what is said here by name."""
    children = [
        Child(
            kind=workload.kinds[0],
            name=workload.name,
            owner=resource.name,
            function_key=workload.function_key,
            desired=told.get(workload.name, workload.replicas),
        )
        for workload in workloads_of(resource)
    ]
    kinds = (ManagedKind.DEPLOYMENT, ManagedKind.ODGM_DEPLOYMENT)
    return Observed(
        children={kind: Known(tuple(c for c in children if c.kind is kind)) for kind in kinds},
        partitions=(WELL,),
        load_percent=10,
        memory_usage_percent=10,
    )

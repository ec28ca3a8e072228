"""Runtimes for tests of what is enforced, and their children as a substrate would show them when
all is well."""

from typing import Any

from holdfast.core.ids import Instant
from holdfast.runtimes.local import MANAGED
from holdfast.runtimes.observed import Child, Known, Observed, Partition
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.spec import Function, Nfr, Odgm, Spec
from holdfast.runtimes.status import Status
from holdfast.runtimes.templates import TEMPLATES
from holdfast.runtimes.workload import Workload

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
        spec=Spec(template="edge", functions=declared, odgm=odgm, nfr=nfr),
        status=Status(**status),
    )


def workloads_of(resource: Resource) -> tuple[Workload, ...]:
    return TEMPLATES[resource.spec.template].render(resource)


def observed_at(resource: Resource) -> Observed:
    """Every child told what it should be, and nothing wrong anywhere."""
    workloads = workloads_of(resource)
    children = [
        Child(
            kind=kind,
            name=workload.name,
            owner=resource.name,
            function_key=workload.function_key,
            revision=workload.revision,
            desired=workload.replicas,
            ready=workload.replicas,
        )
        for workload in workloads
        for kind in workload.kinds
    ]
    return Observed(
        children={kind: Known(tuple(c for c in children if c.kind is kind)) for kind in MANAGED},
        partitions=(WELL,),
        load_percent=10,
        memory_usage_percent=10,
    )

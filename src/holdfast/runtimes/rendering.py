"""From what was declared to what should run: the part of it that templates share."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.runtimes.descriptor import name_by_key, name_of_odgm
from holdfast.runtimes.observed import ManagedKind
from holdfast.runtimes.resource import (
    COMPONENT_LABEL,
    FUNCTION,
    FUNCTION_LABEL,
    ODGM,
    OWNER_LABEL,
    REVISION_LABEL,
    Resource,
)
from holdfast.runtimes.spec import (
    CPU,
    MEMORY,
    ODGM_REPLICAS,
    REPLICAS,
    Check,
    Function,
    Health,
    Odgm,
    Restarts,
)
from holdfast.runtimes.status import Enforced, target_key
from holdfast.runtimes.workload import PartitionCheck, Probe, Probes, Workload

REVISION_BYTES: Final = 5
NO_PROBES: Final = Probes()
USUAL_RESTARTS: Final = Restarts()


class Style(Struct, frozen=True, kw_only=True):
    """How one template places what it renders."""

    asks_resources: bool
    spread: str
    workers_most: int
    function_kinds: tuple[ManagedKind, ...] = (ManagedKind.DEPLOYMENT,)
    function_companions: tuple[ManagedKind, ...] = (ManagedKind.SERVICE,)
    odgm_kinds: tuple[ManagedKind, ...] = (ManagedKind.ODGM_DEPLOYMENT,)
    odgm_companions: tuple[ManagedKind, ...] = (ManagedKind.ODGM_SERVICE,)


def renderer(style: Style) -> Callable[[Resource], tuple[Workload, ...]]:
    """What makes workloads in this style of a resource. What was enforced stands above what was
    declared, so that an apply never undoes an enforcement."""

    def render(resource: Resource) -> tuple[Workload, ...]:
        spec, enforced = resource.spec, resource.status.enforced
        workloads = [
            _function(resource.name, function, style, enforced) for function in spec.functions
        ]
        if spec.odgm is not None and spec.odgm.enabled:
            workloads.append(_odgm(resource.name, spec.odgm, style, enforced))
        return tuple(workloads)

    return render


def effective(
    enforced: dict[str, Enforced], dimension: str, function_key: str, declared: int
) -> int:
    """What holds of one dimension: what was enforced for this function, for all, or declared."""
    for key in (target_key(dimension, function_key), dimension):
        found = enforced.get(key)
        if found is not None and found.target is not None:
            return found.target
    return declared


def _function(
    class_name: str, function: Function, style: Style, enforced: dict[str, Enforced]
) -> Workload:
    name = name_by_key(class_name, function.key)
    replicas = function.replicas
    if enforced:
        replicas = effective(enforced, REPLICAS, function.key, replicas)
    return _workload(
        function,
        style,
        enforced,
        name=name,
        class_name=class_name,
        component=FUNCTION,
        function_key=function.key,
        replicas=replicas,
        kinds=style.function_kinds,
        companions=style.function_companions,
    )


def _odgm(class_name: str, odgm: Odgm, style: Style, enforced: dict[str, Enforced]) -> Workload:
    workload = _workload(
        odgm,
        style,
        {},
        name=name_of_odgm(class_name),
        class_name=class_name,
        component=ODGM,
        function_key="",
        replicas=effective(enforced, ODGM_REPLICAS, "", odgm.replicas),
        kinds=style.odgm_kinds,
        companions=style.odgm_companions,
    )
    return _asked_about_partitions(workload, odgm)


def _workload(
    declared: Function | Odgm,
    style: Style,
    enforced: dict[str, Enforced],
    *,
    name: str,
    class_name: str,
    component: str,
    function_key: str,
    replicas: int,
    kinds: tuple[ManagedKind, ...],
    companions: tuple[ManagedKind, ...],
) -> Workload:
    cpus_milli, memory_bytes, gpus = _asked(declared, style, enforced, function_key)
    env = declared.env
    if isinstance(declared, Odgm):
        env = {**env, "ODGM_PARTITIONS": str(declared.partitions)}
    metrics = declared.metrics
    probes = NO_PROBES if declared.health is None else probes_of(declared.health)
    metrics_path, metrics_port = ("", "") if metrics is None else (metrics.path, metrics.port)
    constraints, spread = declared.placement.constraints, declared.placement.spread or style.spread
    grace_ms = int(declared.grace)
    digest = _digest(
        declared.command, declared.image, sorted(env.items()), declared.ports, probes,
        metrics_path, metrics_port, cpus_milli, memory_bytes, gpus, constraints, spread,
        style.workers_most, grace_ms,
    )  # fmt: skip
    revision = _with_restarts(digest, declared.restarts)
    return Workload(
        name=name,
        kinds=kinds,
        companions=companions,
        component=component,
        function_key=function_key,
        labels={
            OWNER_LABEL: class_name,
            FUNCTION_LABEL: function_key,
            COMPONENT_LABEL: component,
            REVISION_LABEL: revision,
        },
        revision=revision,
        command=declared.command,
        image=declared.image,
        env=env,
        ports=declared.ports,
        probes=probes,
        metrics_path=metrics_path,
        metrics_port=metrics_port,
        replicas=replicas,
        required=min(replicas, declared.replicas),
        cpus_milli=cpus_milli,
        memory_bytes=memory_bytes,
        gpus=gpus,
        constraints=constraints,
        spread=spread,
        workers_most=style.workers_most,
        rollout=declared.rollout,
        restarts=declared.restarts,
        grace_ms=grace_ms,
    )


def _with_restarts(revision: str, restarts: Restarts) -> str:
    """A replica falls by the rules it was begun under: others take other replicas. What says
    nothing of them keeps the revision it had before they counted."""
    if restarts == USUAL_RESTARTS:
        return revision
    spans = (restarts.refill, restarts.delay, restarts.max_delay, restarts.steady)
    return _digest(revision, restarts.max, *map(int, spans))


def _asked_about_partitions(workload: Workload, odgm: Odgm) -> Workload:
    """The same data grid, whose members are asked how their partitions stand."""
    asked = odgm.partition_health
    if asked is None:
        return workload
    check = PartitionCheck(
        path=asked.path,
        port=asked.port,
        period_ms=int(asked.period),
        timeout_ms=int(asked.timeout),
    )
    # What asks nobody keeps the revision it had before there was such a question.
    revision = _digest(workload.revision, check)
    return replace(
        workload,
        revision=revision,
        labels={**workload.labels, REVISION_LABEL: revision},
        partitions=odgm.partitions,
        partition_check=check,
    )


def _asked(
    declared: Function | Odgm, style: Style, enforced: dict[str, Enforced], function_key: str
) -> tuple[int, int, int]:
    """Thousandths of a processor, bytes of memory and devices for each replica."""
    if not style.asks_resources:
        return 0, 0, 0
    asked = declared.resources
    cpus_milli, memory_bytes = int(asked.cpu), int(asked.memory)
    if enforced:
        cpus_milli = effective(enforced, CPU, function_key, cpus_milli)
        memory_bytes = effective(enforced, MEMORY, function_key, memory_bytes)
    return cpus_milli, memory_bytes, asked.gpus


def _digest(*replaced: object) -> str:
    return blake2b(msgspec.msgpack.encode(replaced), digest_size=REVISION_BYTES).hexdigest()


def probes_of(health: Health) -> Probes:
    """The probes a replica has: `ready` always, the other two where they are written."""
    return Probes(
        start=None if health.start is None else probe_of(health, health.start),
        ready=probe_of(health, health.ready or Check()),
        live=None if health.live is None else probe_of(health, health.live),
    )


def probe_of(health: Health, check: Check) -> Probe:
    """One probe: what it says itself, and what `health` says for all of them."""
    # One that asks in a way of its own takes over no part of the question asked of the others.
    asks = health if _asks_nothing(check) else check
    command = asks.exec or ()
    kind = asks.kind or ("exec" if command else "http" if asks.path is not None else "tcp")
    return Probe(
        kind=kind,
        path=(asks.path or "/") if kind == "http" else "",
        port=asks.port or "",
        command=command,
        period_ms=int(health.period if check.period is None else check.period),
        timeout_ms=int(health.timeout if check.timeout is None else check.timeout),
        failures=health.failures if check.failures is None else check.failures,
        successes=health.successes if check.successes is None else check.successes,
    )


def _asks_nothing(check: Check) -> bool:
    return (
        check.kind is None and check.path is None and check.port is None and check.exec is None
    )

"""A child as it should be, in words that every substrate understands."""

from typing import Literal

from msgspec import Struct

from holdfast.runtimes.observed import ManagedKind
from holdfast.runtimes.spec import Restarts, Rollout

ProbeRole = Literal["start", "ready", "live"]


class Probe(Struct, frozen=True, kw_only=True, gc=False):
    """One question asked of a replica again and again. `port` is the name of a port; empty is
    the first one."""

    kind: Literal["http", "tcp", "exec"]
    path: str = ""
    port: str = ""
    command: tuple[str, ...] = ()
    period_ms: int = 10_000
    timeout_ms: int = 1_000
    failures: int = 3
    successes: int = 1


class Probes(Struct, frozen=True, kw_only=True, gc=False):
    """Those a replica has. Without `ready` it is ready when its first port takes connections, or
    when it started, where it has no port."""

    start: Probe | None = None
    ready: Probe | None = None
    live: Probe | None = None


class PartitionCheck(Struct, frozen=True, kw_only=True, gc=False):
    """How each member of the data grid is asked about its partitions. `port` is the name of a
    port; empty is the first one."""

    path: str
    port: str
    period_ms: int
    timeout_ms: int


class Workload(Struct, frozen=True, kw_only=True):
    """One function, or the data grid, as it should be.

    `revision` names all of it that cannot change without replacing replicas: a change of count or
    rollout keeps the revision. `kinds` are the children it must have, `companions`
    those that come and go with them. `required` replicas make it ready: what was declared, or
    fewer where fewer are enforced; more that are enforced are welcome and not waited for.
    `workers_most` bounds over how many workers its replicas go; zero is no bound. `partitions` is
    how many of them the data grid should tell of, when it is asked by `partition_check`.
    """

    name: str
    kinds: tuple[ManagedKind, ...]
    companions: tuple[ManagedKind, ...]
    component: str
    function_key: str
    labels: dict[str, str]
    revision: str
    command: tuple[str, ...]
    image: str
    env: dict[str, str]
    ports: tuple[str, ...]
    probes: Probes
    metrics_path: str
    metrics_port: str
    replicas: int
    required: int
    cpus_milli: int
    memory_bytes: int
    gpus: int
    constraints: tuple[str, ...]
    spread: str
    workers_most: int
    rollout: Rollout
    restarts: Restarts
    grace_ms: int
    partitions: int = 0
    partition_check: PartitionCheck | None = None

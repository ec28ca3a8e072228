"""What a class runtime should be: the types of `spec`, as people write it and as it is judged.

Names are camelCase outside. Every default is applied when a manifest is read, so that what is
stored says all of it, and a later change of a default moves nobody's runtime.
"""

from typing import Final, Literal

from msgspec import Struct, field

from holdfast.runtimes.written import Cpu, Portion, Share, Size, Span

Mode = Literal["off", "observe", "enforce"]
Dimension = Literal["replicas", "memory", "cpu", "odgm_replicas"]
EnforcePhase = Literal["available", "progressing"]
ProbeKind = Literal["http", "tcp", "exec"]
Spread = Literal["pack", "spread", ""]

REPLICAS: Final = "replicas"
MEMORY: Final = "memory"
CPU: Final = "cpu"
ODGM_REPLICAS: Final = "odgm_replicas"


class Written(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of a manifest."""


class Check(Written, frozen=True, kw_only=True):
    """How one probe differs from what `health` says for all of them. Empty: no difference."""

    kind: ProbeKind | None = None
    path: str | None = None
    port: str | None = None
    exec: tuple[str, ...] | None = None
    period: Span | None = None
    timeout: Span | None = None
    failures: int | None = None
    successes: int | None = None


class Health(Written, frozen=True, kw_only=True):
    """What is asked of a replica. Alone it is the `ready` probe; `start` and `live` exist where
    they are written, and take from here what they do not say themselves."""

    kind: ProbeKind | None = None
    path: str | None = None
    port: str | None = None
    exec: tuple[str, ...] | None = None
    period: Span = Span(10_000)
    timeout: Span = Span(1_000)
    failures: int = 3
    successes: int = 1
    start: Check | None = None
    ready: Check | None = None
    live: Check | None = None


class Resources(Written, frozen=True, kw_only=True):
    """What a replica asks of a worker."""

    cpu: Cpu = Cpu(0)
    memory: Size = Size(0)
    gpus: int = 0


class Metrics(Written, frozen=True, kw_only=True):
    """Where a function tells its own request counters."""

    path: str = "/metrics"
    port: str = ""


class Rollout(Written, frozen=True, kw_only=True):
    """How replicas of one revision make room for those of the next. With `steps` so much of it is
    replaced, then nothing for `pause`, then the next step."""

    surge: Portion = Portion(1)
    unavailable: Portion = Portion(0)
    steps: tuple[Share, ...] = ()
    pause: Span = Span(0)


class Placement(Written, frozen=True, kw_only=True):
    """Wishes that go to the scheduler as they are."""

    constraints: tuple[str, ...] = ()
    spread: Spread = ""


class Restarts(Written, frozen=True, kw_only=True):
    """A budget of restarts that refills: `max` at once, one more every `refill`. The wait before
    a restart doubles from `delay` to `max_delay` and begins anew after `steady` of running."""

    max: int = 10
    refill: Span = Span(60_000)
    delay: Span = Span(1_000)
    max_delay: Span = Span(60_000)
    steady: Span = Span(60_000)


class Function(Written, frozen=True, kw_only=True):
    """One function of the class, kept up in so many replicas."""

    key: str
    command: tuple[str, ...] = ()
    image: str = ""
    env: dict[str, str] = field(default_factory=dict)
    replicas: int = 1
    ports: tuple[str, ...] = ("http",)
    resources: Resources = Resources()
    health: Health | None = None
    metrics: Metrics | None = None
    rollout: Rollout = Rollout()
    placement: Placement = Placement()
    grace: Span = Span(10_000)
    restarts: Restarts = Restarts()


class PartitionHealth(Written, frozen=True, kw_only=True):
    """Where a member of the data grid tells how its partitions stand. A leader that has led for
    `leader_steady` counts as stable."""

    path: str = "/partitions"
    port: str = ""
    period: Span = Span(5_000)
    timeout: Span = Span(1_000)
    leader_steady: Span = Span(60_000)


class Odgm(Written, frozen=True, kw_only=True):
    """The object data grid beside the functions: a component of its own. Without
    `partition_health` nobody knows how its partitions stand."""

    enabled: bool = True
    command: tuple[str, ...] = ()
    image: str = ""
    env: dict[str, str] = field(default_factory=dict)
    replicas: int = 1
    partitions: int = 1
    partition_health: PartitionHealth | None = None
    ports: tuple[str, ...] = ("http",)
    resources: Resources = Resources()
    health: Health | None = None
    metrics: Metrics | None = None
    rollout: Rollout = Rollout()
    placement: Placement = Placement()
    grace: Span = Span(10_000)
    restarts: Restarts = Restarts()


class WorkersAnalyzer(Written, frozen=True, kw_only=True):
    """What the workers measured of the processes and scraped from the functions."""

    window: Span = Span(60_000)


class PrometheusAnalyzer(Written, frozen=True, kw_only=True):
    """One query a dimension, asked over HTTP."""

    url: str
    queries: dict[str, str]
    timeout: Span = Span(5_000)


class StaticAnalyzer(Written, frozen=True, kw_only=True):
    """Values written down: for trying out, and for holding a runtime at a size."""

    replicas: int | None = None
    memory: Size | None = None
    cpu: Cpu | None = None
    odgm_replicas: int | None = field(default=None, name="odgm_replicas")


class Analyzer(Written, frozen=True, kw_only=True):
    """Who recommends: exactly one of these."""

    workers: WorkersAnalyzer | None = None
    prometheus: PrometheusAnalyzer | None = None
    static: StaticAnalyzer | None = None


class Nfr(Written, frozen=True, kw_only=True):
    """Non-functional requirements, and how far they may be enforced.

    A `max_replicas` of None is no bound of its own: what was declared is then the bound upwards.
    """

    mode: Mode = "off"
    min_throughput_rps: float | None = None
    max_latency_ms: int | None = None
    min_replicas: int = 1
    max_replicas: int | None = None
    stability: Span = Span(180_000)
    cooldown: Span = Span(120_000)
    stale_after: Span = Span(300_000)
    max_step_down: int = 1
    enforce_in: tuple[EnforcePhase, ...] = ("available",)
    dimensions: tuple[Dimension, ...] = ("replicas",)
    min_confidence: float = 0.8
    max_load: Share = Share(80)
    max_memory_usage: Share = Share(80)
    analyzer: Analyzer = Analyzer(workers=WorkersAnalyzer())


class Timeouts(Written, frozen=True, kw_only=True):
    """How long what is expected may take before it is trouble."""

    progress: Span = Span(300_000)
    delete: Span = Span(60_000)


class Spec(Written, frozen=True, kw_only=True):
    """A class runtime as it was declared."""

    template: str
    functions: tuple[Function, ...]
    odgm: Odgm | None = None
    nfr: Nfr = Nfr()
    timeouts: Timeouts = Timeouts()

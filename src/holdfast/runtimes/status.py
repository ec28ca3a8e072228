"""What is known of a class runtime: everything people read, and what decisions must remember.

Each field has one writer, which is why nothing is ever lost between them: the evaluator (phase,
conditions, functions, references, tries, stability), the analyzer (recommendations), enforcement
(what was applied, cooldown, failures), discovery (routers) and the actuator (the last apply).
"""

from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from holdfast.core.ids import NEVER, Instant

AUDIT_MOST: Final = 20
"""So many records of what was applied are kept; the events of the log have them all."""

ADDRESSES_MOST: Final = 2_000
"""So many addresses are in a status, over all services of a runtime."""


class Phase(StrEnum):
    """Where in its life a runtime is."""

    PENDING = "pending"
    APPLYING = "applying"
    PROGRESSING = "progressing"
    AVAILABLE = "available"
    DEGRADED = "degraded"
    DELETING = "deleting"


class ConditionType(StrEnum):
    """The eight that are always told, in this order."""

    PROGRESSING = "Progressing"
    AVAILABLE = "Available"
    DEGRADED = "Degraded"
    NFR_OBSERVED = "NfrObserved"
    NFR_ENFORCED = "NfrEnforced"
    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"


class Condition(Struct, frozen=True, kw_only=True, gc=False):
    """One thing that is so, or is not. `last_transition_at` moves with
    `is_true` alone: neither a new reason nor a new message is a transition."""

    type: ConditionType
    is_true: bool
    reason: str
    message: str = ""
    observed_generation: int = 0
    last_transition_at: Instant = NEVER


class RolloutProgress(Struct, frozen=True, kw_only=True, gc=False):
    """How far the newest revision has come. `step` counts from one; zero of zero is no steps."""

    revision: str = ""
    updated: int = 0
    desired: int = 0
    step: int = 0
    steps: int = 0
    paused_until: Instant = NEVER
    is_stopped: bool = False
    message: str = ""


class FunctionStatus(Struct, frozen=True, kw_only=True, gc=False):
    """One function. `service` and `url` are predicted by the template and stay as they are until
    the template changes; the rest follows what is observed."""

    function_key: str
    service: str = ""
    url: str = ""
    is_ready: bool = False
    desired: int = 0
    ready: int = 0
    updated: int = 0
    revision: str = ""
    reason: str = ""
    message: str = ""
    rollout: RolloutProgress | None = None


class OdgmStatus(Struct, frozen=True, kw_only=True, gc=False):
    """The data grid. `healthy_partitions` is None where it does not tell."""

    service: str = ""
    is_ready: bool = False
    desired: int = 0
    ready: int = 0
    partitions: int = 0
    healthy_partitions: int | None = None
    reason: str = ""
    message: str = ""


class Router(Struct, frozen=True, order=True, gc=False):
    """Where requests for one service may go, as the registry of endpoints says. `left_off` are
    those beyond `ADDRESSES_MOST` of all services; the registry has them."""

    service: str
    addresses: tuple[str, ...] = ()
    left_off: int = 0


class ResourceRef(Struct, frozen=True, order=True, gc=False):
    """A child by kind and name."""

    kind: str
    name: str

    @property
    def told(self) -> str:
        return f"{self.kind}/{self.name}"


class Recommendation(Struct, frozen=True, kw_only=True, gc=False):
    """What an analyzer holds to be right: whole replicas, bytes, or thousandths of a processor."""

    value: int
    observed_at: Instant
    generation: int
    confidence: float = 1.0
    basis: str = ""


class Stability(Struct, frozen=True, kw_only=True, gc=False):
    """Since when one target has been asked for without a change, and what was last decided about
    it: an event is told when that changes, not whenever it is looked at."""

    target: int
    last_change_at: Instant
    decision: str = ""


class Enforced(Struct, frozen=True, kw_only=True, gc=False):
    """What enforcement did last for one target. `target` is None where what was declared holds.
    `failures` counts those since the last success, with the reason of the latest. `at` is when
    the latest ended, well or not."""

    target: int | None = None
    cooldown_until: Instant = NEVER
    at: Instant = NEVER
    failures: int = 0
    reason: str = ""
    message: str = ""


class AppliedRecommendation(Struct, frozen=True, kw_only=True, gc=False):
    """One line of the audit trail."""

    component: str
    dimension: str
    target: int
    basis: str
    confidence: float
    function_key: str = ""
    applied_at: Instant = NEVER


class ApplyCode(StrEnum):
    """What became of an apply."""

    NONE = "none"
    OK = "ok"
    CONFLICT = "conflict"
    INVALID = "invalid"
    FAILED = "failed"


class ApplyResult(Struct, frozen=True, kw_only=True, gc=False):
    """The latest apply. `since` is when this generation was first applied well; it does not move
    when the same generation is applied again."""

    generation: int = 0
    code: ApplyCode = ApplyCode.NONE
    message: str = ""
    since: Instant = NEVER


class Tried(Struct, frozen=True, kw_only=True, gc=False):
    """How often an action was taken for one anomaly, and when last."""

    count: int
    last_at: Instant


class Status(Struct, frozen=True, kw_only=True):
    """The whole of it.

    `nfr_recommendations`, `stability` and `enforced` are keyed by target: a dimension alone
    (`replicas`) where it holds for all functions alike, `replicas/hello` where it is one
    function's. `tries` is keyed by anomaly. `metrics_targets` are those that were ensured.
    `template` is the one that predicted the names in `functions`. `last_updated_at` is when this
    was last written.
    """

    phase: Phase = Phase.PENDING
    observed_generation: int = 0
    template: str = ""
    conditions: tuple[Condition, ...] = ()
    functions: tuple[FunctionStatus, ...] = ()
    odgm: OdgmStatus | None = None
    routers: tuple[Router, ...] = ()
    resource_refs: tuple[ResourceRef, ...] = ()
    nfr_recommendations: dict[str, Recommendation] = field(default_factory=dict)
    last_applied_recommendations: tuple[AppliedRecommendation, ...] = ()
    last_applied_at: Instant = NEVER
    apply: ApplyResult = ApplyResult()
    tries: dict[str, Tried] = field(default_factory=dict)
    stability: dict[str, Stability] = field(default_factory=dict)
    enforced: dict[str, Enforced] = field(default_factory=dict)
    metrics_targets: tuple[str, ...] = ()
    last_updated_at: Instant = NEVER


NEW: Final = Status()


def target_key(dimension: str, function_key: str = "") -> str:
    """How a target is named: `replicas`, or `replicas/hello` for one function alone."""
    return f"{dimension}/{function_key}" if function_key else dimension


def parse_target_key(key: str) -> tuple[str, str]:
    """The dimension and the function of a target; no function where it holds for all."""
    dimension, _, function_key = key.partition("/")
    return dimension, function_key


def condition_of(status: Status, kind: ConditionType) -> Condition | None:
    for condition in status.conditions:
        if condition.type is kind:
            return condition
    return None

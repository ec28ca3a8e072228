"""What the evaluator asks the actuator to do, and what comes back of it.

Every action may be repeated: done twice it leaves what once would have left.
"""

from msgspec import Struct, field

from holdfast.core.ids import Instant
from holdfast.runtimes.status import ApplyCode, ResourceRef, Stability
from holdfast.runtimes.workload import Workload


class EnsureFinalizer(Struct, frozen=True, tag=True):
    """Put our finalizer on the resource."""


class ApplyWorkload(Struct, frozen=True, tag=True, kw_only=True):
    """Bring these children to what they should be: all of them for a new generation, those that
    are missing or outdated otherwise."""

    generation: int
    workloads: tuple[Workload, ...]


class DeleteOrphans(Struct, frozen=True, tag=True):
    """Take away children that carry the owner's label and that the spec no longer names."""

    children: tuple[ResourceRef, ...]


class MetricsTarget(Struct, frozen=True, gc=False):
    """Where the replicas of one workload tell their counters."""

    name: str
    function_key: str
    path: str
    port: str = ""


class EnsureMetricsTargets(Struct, frozen=True, tag=True):
    """Have these scraped, and no others of this runtime."""

    targets: tuple[MetricsTarget, ...]


class Enforce(Struct, frozen=True, tag=True, kw_only=True):
    """Bring one dimension of these workloads to `target`; the actuator picks the path. `target`
    is None to go back to what was declared. `key` is the target's name in the status.
    `is_release`: it is let go of, and nobody is told anything; what was declared is applied as it
    is when a person declares it."""

    key: str
    component: str
    dimension: str
    function_key: str
    target: int | None
    basis: str
    confidence: float
    cooldown_until: Instant
    is_release: bool = False


class DeleteChildren(Struct, frozen=True, tag=True):
    """Take away these children, as well as can be; what is gone already is no error."""

    children: tuple[ResourceRef, ...]


class RemoveFinalizer(Struct, frozen=True, tag=True):
    """Nothing is left: let the resource go."""


class EmitEvent(Struct, frozen=True, tag=True, kw_only=True, gc=False):
    """Tell whoever watches. Told once a transition, not once a look."""

    reason: str
    message: str
    is_warning: bool = False


Action = (
    EnsureFinalizer
    | ApplyWorkload
    | DeleteOrphans
    | EnsureMetricsTargets
    | Enforce
    | DeleteChildren
    | RemoveFinalizer
    | EmitEvent
)


class ApplyOutcome(Struct, frozen=True, kw_only=True, gc=False):
    """What an apply came to. `message` is the child it met in a conflict (`Deployment/x`), else
    what was said of it; empty when it went well."""

    generation: int
    code: ApplyCode
    message: str = ""


class EnforcementOutcome(Struct, frozen=True, kw_only=True, gc=False):
    """What an enforcement came to. `reason` is empty when it went well, else one of the four
    (`EnforceConflict`, `EnforceInvalid`, `EnforceFallbackFailed`, `EnforceFailed`). `at` is when
    it ended, and with the key its identity."""

    key: str
    component: str
    dimension: str
    function_key: str
    target: int | None
    basis: str
    confidence: float
    cooldown_until: Instant
    at: Instant
    reason: str = ""
    message: str = ""


class NfrJudgement(Struct, frozen=True, kw_only=True):
    """What `nfr.judge(resource, phase, observed, workloads, now=…)` says of one look, for the
    evaluator to pass on: what to enforce and tell (`actions`), the whole of the new `stability`,
    when to look again, what `NfrEnforced` is, and the reason and message to degrade with, both
    empty while there is none."""

    actions: tuple[Enforce | EmitEvent, ...] = ()
    stability: dict[str, Stability] = field(default_factory=dict)
    requeue_after_ms: int | None = None
    is_enforced: bool = False
    reason: str = "NotEnforced"
    message: str = ""
    degraded_reason: str = ""
    degraded_message: str = ""

"""When recommendations are listened to, and what has to be so before one is carried out.

Two tables. `WINDOWS` says for each phase whether load is observed and whether targets may be
enforced. `PRECONDITIONS` says for each dimension what else must hold. A closed gate says why.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.observed import NOBODY_TELLS, Partition, Telling
from holdfast.runtimes.quorum import outvoted, unled, unwell
from holdfast.runtimes.spec import CPU, MEMORY, ODGM_REPLICAS, REPLICAS
from holdfast.runtimes.status import Phase
from holdfast.runtimes.written import WHOLE

ENFORCE_REASONS: Final = (
    "EnforceFailed",
    "EnforceConflict",
    "EnforceInvalid",
    "EnforceFallbackFailed",
)
"""What is wrong where nothing but an enforcement is: trying again is the way out of it."""

LEADER_STEADY_MS: Final = 60_000
"""So long a leader must have led before members come or go."""


class Observation(StrEnum):
    """What becomes of measurements: `passive` records them, `active` also acts on them."""

    NONE = "none"
    PASSIVE = "passive"
    ACTIVE = "active"
    SUSPENDED = "suspended"


class Enforcement(StrEnum):
    """Whether targets are carried out; `retry`: only where a failed enforcement is all that is
    wrong."""

    DISABLED = "disabled"
    OPTIONAL = "optional"
    PRIMARY = "primary"
    RETRY = "retry"


class Window(Struct, frozen=True):
    """What one phase allows."""

    observation: Observation
    enforcement: Enforcement


WINDOWS: Final[Mapping[Phase, Window]] = {
    Phase.PENDING: Window(Observation.NONE, Enforcement.DISABLED),
    Phase.APPLYING: Window(Observation.NONE, Enforcement.DISABLED),
    Phase.PROGRESSING: Window(Observation.PASSIVE, Enforcement.OPTIONAL),
    Phase.AVAILABLE: Window(Observation.ACTIVE, Enforcement.PRIMARY),
    Phase.DEGRADED: Window(Observation.SUSPENDED, Enforcement.RETRY),
    Phase.DELETING: Window(Observation.NONE, Enforcement.DISABLED),
}


def only_enforcement_failed(troubles: tuple[str, ...]) -> bool:
    """Whether a degraded runtime would be well if its last enforcement had worked."""
    return bool(troubles) and all(reason in ENFORCE_REASONS for reason in troubles)


def is_followed(phase: Phase, troubles: tuple[str, ...]) -> bool:
    """Whether recommendations are recorded and their stability is counted in this phase.

    Of a degraded runtime the load says nothing, unless only an enforcement failed.
    """
    observation = WINDOWS[phase].observation
    if observation is Observation.SUSPENDED:
        return only_enforcement_failed(troubles)
    return observation is not Observation.NONE


def closed_phase(phase: Phase, enforce_in: tuple[str, ...], troubles: tuple[str, ...]) -> str:
    """Why nothing is enforced in this phase; nothing where it is."""
    enforcement = WINDOWS[phase].enforcement
    if enforcement is Enforcement.RETRY and only_enforcement_failed(troubles):
        return ""
    if enforcement in {Enforcement.PRIMARY, Enforcement.OPTIONAL} and phase in enforce_in:
        return ""
    return f"nothing is enforced while {phase}"


class Situation(Struct, frozen=True, kw_only=True, gc=False):
    """What the gates of a dimension look at. What is None was not measured. `changed_at` is when
    this dimension was last changed, and the two counts after it are those of its replicas."""

    now: Instant
    actual: int = 0
    target: int = 0
    confidence: float = 1.0
    confidence_min: float = 0.0
    memory_used_percent: int | None = None
    memory_percent_max: int = WHOLE
    load_percent: int | None = None
    load_percent_max: int = WHOLE
    is_autoscaled: bool = False
    partitions: tuple[Partition, ...] | None = None
    partitions_declared: int = 0
    telling: Telling = NOBODY_TELLS
    changed_at: Instant = NEVER
    replicas_ready: int | None = None
    replicas_leaving: int = 0
    leader_steady_ms: int = LEADER_STEADY_MS


Precondition = Callable[[Situation], str]


def confident(situation: Situation) -> str:
    if situation.confidence < situation.confidence_min:
        return f"a confidence of {situation.confidence:.2f} is below {situation.confidence_min:.2f}"
    return ""


def memory_to_spare(situation: Situation) -> str:
    """A limit moves only while there is room under it: a process at its limit would be ended by
    the restart that gives it more."""
    used = situation.memory_used_percent
    if used is None:
        return "the use of memory is not known"
    if used >= situation.memory_percent_max:
        return f"{used}% of memory is in use, {situation.memory_percent_max}% is the limit"
    return ""


def load_in_range(situation: Situation) -> str:
    load = situation.load_percent
    if load is None:
        return "the load of the replicas is not known"
    if load > situation.load_percent_max:
        return f"the load is {load}%, {situation.load_percent_max}% is the limit"
    return ""


def not_autoscaled(situation: Situation) -> str:
    """An autoscaler reckons in shares of the requested processor: a request that changes under it
    changes what it sees, and both would move for ever."""
    return "an autoscaler goes by the requested processor" if situation.is_autoscaled else ""


def partitions_healthy(situation: Situation) -> str:
    declared, doubt = situation.partitions_declared, situation.telling.doubt
    return unwell(situation.partitions, declared=declared, doubt=doubt)


def members_settled(situation: Situation) -> str:
    """The last one to join or to leave has done so, and the partitions were heard of since."""
    ready, actual = situation.replicas_ready, situation.actual
    if situation.replicas_leaving:
        return "a member is still leaving"
    if situation.target > actual and ready is not None and ready < actual:
        return f"{ready} of {actual} replicas are ready"
    told_at = situation.telling.told_at
    if told_at != NEVER and told_at <= situation.changed_at:
        return "nothing was heard of the partitions since the last change"
    return ""


def leader_stable(situation: Situation) -> str:
    steady_ms = situation.leader_steady_ms
    return unled(situation.partitions, steady_ms=steady_ms, now=situation.now)


def quorum_kept(situation: Situation) -> str:
    actual, target = situation.actual, situation.target
    return outvoted(situation.partitions, actual=actual, target=target)


PRECONDITIONS: Final[Mapping[str, tuple[Precondition, ...]]] = {
    # Stability and cooldown hold for every dimension; `nfr.decide` sees to them.
    REPLICAS: (),
    MEMORY: (confident, memory_to_spare),
    CPU: (load_in_range, not_autoscaled),
    ODGM_REPLICAS: (partitions_healthy, members_settled, leader_stable, quorum_kept),
}


PASSING: Final = (members_settled, leader_stable)
"""Those that time alone will open, and soon, as long as the others stay open."""


def opens_soon(dimension: str, situation: Situation) -> bool:
    """Whether a closed gate is one that time alone will open."""
    for precondition in PRECONDITIONS[dimension]:
        if precondition(situation):
            return precondition in PASSING
    return False


def closed_gate(dimension: str, situation: Situation) -> str:
    """The first reason why this dimension may not change now; nothing where it may."""
    for precondition in PRECONDITIONS[dimension]:
        if why := precondition(situation):
            return why
    return ""

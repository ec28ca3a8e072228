"""What non-functional requirements ask of a runtime at one look: what to enforce, what to tell,
when to look again, and how `NfrEnforced` stands.

One decision a dimension and component (`enforcing.decide`). A failed enforcement leaves the phase
as it is and says so in the condition; the third in a row degrades the runtime, with the reason of
that failure, until one succeeds or there is nothing left to enforce.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.amounts import spelled_ms
from holdfast.core.ids import Instant
from holdfast.runtimes.actions import EmitEvent, Enforce, EnforcementOutcome, NfrJudgement
from holdfast.runtimes.enforcing import (
    CLAMPED,
    Apply,
    Decided,
    Decision,
    Held,
    NfrInput,
    NoChange,
    ResetTarget,
    Rules,
    SkipMode,
    WaitCooldown,
    WaitStability,
    decide,
    wish_of,
)
from holdfast.runtimes.gates import LEADER_STEADY_MS, Situation, is_followed
from holdfast.runtimes.observed import ManagedKind, Observed, Telling
from holdfast.runtimes.paths import Way, way_of
from holdfast.runtimes.resource import FUNCTION, Resource
from holdfast.runtimes.spec import CPU, MEMORY, ODGM_REPLICAS, REPLICAS, Mode, Nfr, Resources
from holdfast.runtimes.status import (
    Enforced,
    Phase,
    Recommendation,
    Status,
    parse_target_key,
    target_key,
)
from holdfast.runtimes.workload import Workload

FAILURES_MOST: Final = 3
"""So many failed enforcements in a row degrade a runtime."""

HELD_RECHECK_MS: Final = 15_000
"""How often a closed gate is looked at: what it measures changes without telling."""

PASSING_RECHECK_MS: Final = 1_000
"""The same where time alone will open it."""

TOLD: Final[Mapping[str, Callable[[Workload], int]]] = {
    REPLICAS: lambda workload: workload.replicas,
    ODGM_REPLICAS: lambda workload: workload.replicas,
    MEMORY: lambda workload: workload.memory_bytes,
    CPU: lambda workload: workload.cpus_milli,
}
"""What a child is told now: what was enforced before, else what is declared. A child that was told
something else meanwhile is brought back by applying its workload, not by enforcing it anew."""

NOT_ENFORCED: Final = Enforced()


class Subject(Struct, frozen=True, gc=False):
    """One dimension of one component, looked at and decided."""

    key: str
    workload: Workload
    look: NfrInput
    decided: Decided


def judge(
    resource: Resource,
    phase: Phase,
    observed: Observed,
    workloads: tuple[Workload, ...],
    *,
    now: Instant,
    troubles: tuple[str, ...] = (),
) -> NfrJudgement:
    """All decisions of one look. `phase` is what the runtime is in without regard to enforcement;
    `troubles` are the reasons, should that be degraded."""
    mode = resource.spec.nfr.mode
    if not resource.status.enforced and (mode in MODES or not resource.status.nfr_recommendations):
        reason, message = MODES.get(mode, NOTHING_RECOMMENDED)
        return NfrJudgement(reason=reason, message=message)
    subjects = tuple(_subjects(resource, phase, observed, workloads, now, troubles))
    is_enforced, reason, message = _condition(mode, subjects)
    failed = next((s for s in subjects if is_broken(s)), None)
    return NfrJudgement(
        actions=tuple(action for subject in subjects for action in _actions(subject)),
        stability={
            subject.key: subject.decided.stability
            for subject in subjects
            if subject.decided.stability is not None
        },
        requeue_after_ms=_requeue(subjects),
        is_enforced=is_enforced,
        reason=reason,
        message=message,
        degraded_reason=failed.look.enforced.reason if failed else "",
        degraded_message=failed.look.enforced.message if failed else "",
    )


def advice_for(status: Status, dimension: str, function_key: str) -> Recommendation | None:
    """What is recommended for one function, else what is recommended for all alike."""
    recommendations = status.nfr_recommendations
    own = recommendations.get(target_key(dimension, function_key))
    return own if own is not None else recommendations.get(dimension)


def is_broken(subject: Subject) -> bool:
    """Whether enforcing this failed so often that the runtime is degraded by it."""
    return is_failing(subject) and subject.look.enforced.failures >= FAILURES_MOST


def is_failing(subject: Subject) -> bool:
    """Whether the last try failed and there still is something to enforce."""
    is_over = isinstance(subject.decided.decision, NoChange | SkipMode)
    return not is_over and subject.look.enforced.failures > 0


# --- from the declaration to the looks ----------------------------------------------------------


def _subjects(
    resource: Resource,
    phase: Phase,
    observed: Observed,
    workloads: tuple[Workload, ...],
    now: Instant,
    troubles: tuple[str, ...],
) -> Iterator[Subject]:
    status, nfr = resource.status, resource.spec.nfr
    situation = _situation(resource, observed, now)
    rules: dict[tuple[int, str], Rules] = {}
    touched = {parse_target_key(key)[0] for key in status.enforced}
    considered = [each for each in TOLD if each in touched or is_wanted(nfr, each)]
    for workload in workloads:
        function_key = workload.function_key
        is_function = workload.component == FUNCTION
        for dimension in considered:
            if is_function is (dimension == ODGM_REPLICAS):
                continue
            key = target_key(dimension, function_key)
            enforced = status.enforced.get(key, NOT_ENFORCED)
            advice = advice_for(status, dimension, function_key)
            if enforced is NOT_ENFORCED and (advice is None or not is_wanted(nfr, dimension)):
                continue
            way = way_of(observed, workload.kinds + workload.companions, function_key)
            told = TOLD[dimension](workload)
            # What asks for nothing, because of its template, cannot be tuned either.
            declared = declared_of(resource, dimension, function_key) if told else 0
            if (declared, dimension) not in rules:
                rules[declared, dimension] = rules_of(nfr, dimension, declared)
            look = NfrInput(
                dimension=dimension,
                rules=rules[declared, dimension],
                phase=phase,
                troubles=troubles,
                recommendation=advice,
                generation=resource.generation,
                declared=declared,
                actual=told if isinstance(way, Way) else None,
                is_autoscaled=isinstance(way, Way) and way.path.kind is ManagedKind.HPA,
                replicas_ready=way.child.ready if isinstance(way, Way) else None,
                replicas_leaving=way.child.leaving if isinstance(way, Way) else 0,
                stability=status.stability.get(key),
                enforced=enforced,
                situation=situation,
                now=now,
            )
            yield Subject(key, workload, look, decide(look))


def is_wanted(nfr: Nfr, dimension: str) -> bool:
    return nfr.mode == "enforce" and dimension in nfr.dimensions


def declared_of(resource: Resource, dimension: str, function_key: str) -> int:
    """What the spec says of one dimension; zero where it says nothing, or does not know it."""
    spec = resource.spec
    if dimension == ODGM_REPLICAS:
        return spec.odgm.replicas if spec.odgm is not None and spec.odgm.enabled else 0
    for function in spec.functions:
        if function.key == function_key:
            resources: Resources = function.resources
            amounts = {REPLICAS: function.replicas, MEMORY: resources.memory, CPU: resources.cpu}
            return int(amounts[dimension])
    return 0


def rules_of(nfr: Nfr, dimension: str, declared: int) -> Rules:
    """A dimension that is not listed is observed at most. Bounds of replicas do not bound memory
    or processors."""
    mode: Mode = "observe" if nfr.mode == "enforce" else nfr.mode
    if is_wanted(nfr, dimension):
        mode = "enforce"
    counted = dimension in {REPLICAS, ODGM_REPLICAS}
    most = nfr.max_replicas if nfr.max_replicas is not None else max(declared, nfr.min_replicas)
    return Rules(
        mode=mode,
        low=nfr.min_replicas if counted else 1,
        high=most if counted else None,
        stability_ms=nfr.stability,
        cooldown_ms=nfr.cooldown,
        stale_after_ms=nfr.stale_after,
        step_down=nfr.max_step_down,
        enforce_in=nfr.enforce_in,
    )


def _situation(resource: Resource, observed: Observed, now: Instant) -> Situation:
    nfr, odgm = resource.spec.nfr, resource.spec.odgm
    asked = odgm.partition_health if odgm is not None else None
    telling = observed.telling
    if asked is None and observed.partitions is None:
        telling = Telling(doubt="spec.odgm.partitionHealth is not set")
    return Situation(
        now=now,
        confidence_min=nfr.min_confidence,
        memory_used_percent=observed.memory_usage_percent,
        memory_percent_max=nfr.max_memory_usage,
        load_percent=observed.load_percent,
        load_percent_max=nfr.max_load,
        partitions=observed.partitions,
        partitions_declared=odgm.partitions if odgm is not None and asked is not None else 0,
        telling=telling,
        leader_steady_ms=LEADER_STEADY_MS if asked is None else int(asked.leader_steady),
    )


# --- from the decisions to what is done and told ------------------------------------------------

WAITING: Final[dict[type, tuple[str, str]]] = {
    WaitStability: ("NFRSkippedStability", "{what} waits until it has held for {stability}"),
    WaitCooldown: ("NFRSkippedCooldown", "{what} waits until {cooldown} after the last change"),
}


def _actions(subject: Subject) -> Iterator[Enforce | EmitEvent]:
    look, decision = subject.look, subject.decided.decision
    if subject.decided.stability != look.stability:
        yield from _told(subject)
    match decision:
        case Apply(target=target):
            yield _enforce(subject, target, is_reset=False)
        case ResetTarget(target=target):
            yield _enforce(subject, None if target == look.declared else target, is_reset=True)
        case SkipMode() | NoChange() if is_leftover(look):
            # Whoever guards a data grid that shrinks has to see that it should.
            is_guarded = subject.workload.partition_check is not None
            yield replace(_enforce(subject, None, is_reset=True), is_release=is_guarded)


def is_leftover(look: NfrInput) -> bool:
    """Whether something is still enforced that nobody asks for: the mode was changed, or what it
    was enforced on was turned off. What is declared then holds at once; that is a person's wish."""
    if look.enforced.target is None or not is_followed(look.phase, look.troubles):
        return False
    is_due = not look.enforced.failures or look.now >= look.enforced.cooldown_until
    return is_due and (look.rules.mode != "enforce" or wish_of(look) is None)


def _enforce(subject: Subject, target: int | None, *, is_reset: bool) -> Enforce:
    look, advice = subject.look, subject.look.recommendation
    return Enforce(
        key=subject.key,
        component=subject.workload.component,
        dimension=look.dimension,
        function_key=subject.workload.function_key,
        target=target,
        basis="reset" if is_reset or advice is None else advice.basis or "enforcer",
        confidence=1.0 if is_reset or advice is None else advice.confidence,
        cooldown_until=Instant(look.now + look.rules.cooldown_ms),
    )


def _told(subject: Subject) -> Iterator[EmitEvent]:
    """Told when a decision turns into another, not at every look."""
    before, held = subject.look.stability, subject.decided.stability
    said = before.decision if before is not None else ""
    if held is None:
        return
    if held.decision.endswith(CLAMPED) and not said.endswith(CLAMPED):
        high = subject.look.rules.high
        text = f"{subject.key}: {_advised(subject.look)} recommended, {high} is the most allowed"
        yield EmitEvent(reason="NFRClampedMax", message=text)
    decision = type(subject.decided.decision)
    if decision in WAITING and said.removesuffix(CLAMPED) != decision.__name__:
        reason, _ = WAITING[decision]
        yield EmitEvent(reason=reason, message=_text(subject))


def event_of(outcome: EnforcementOutcome) -> EmitEvent:
    """What is told when an enforcement came back."""
    target = "what is declared" if outcome.target is None else outcome.target
    if outcome.reason:
        text = f"{outcome.key}: {outcome.reason}: {outcome.message}"
        return EmitEvent(reason="NFRApplyFailed", message=text, is_warning=True)
    text = f"{outcome.key} is {target} ({outcome.basis})"
    return EmitEvent(reason="NFRApplied", message=text)


def _advised(look: NfrInput) -> int:
    return look.recommendation.value if look.recommendation is not None else look.declared


# --- how NfrEnforced stands ---------------------------------------------------------------------

STANDING: Final[dict[type, str]] = {
    Apply: "Applying",
    ResetTarget: "Resetting",
    Held: "Held",
    WaitCooldown: "WaitCooldown",
    WaitStability: "WaitStability",
}
"""The reasons of `NfrEnforced` being false, most telling first."""

MODES: Final[dict[str, tuple[str, str]]] = {
    "off": ("ModeOff", "nfr.mode is off"),
    "observe": ("ModeObserve", "nfr.mode is observe: recommendations are shown and not enforced"),
}

NOTHING_RECOMMENDED: Final = ("NoRecommendation", "nothing is recommended")


def _condition(mode: Mode, subjects: tuple[Subject, ...]) -> tuple[bool, str, str]:
    if mode in MODES:
        return (False, *MODES[mode])
    for subject in subjects:
        if is_failing(subject):
            enforced = subject.look.enforced
            return False, enforced.reason, f"{subject.key}: {enforced.message}"
    first: dict[type, Subject] = {}
    for subject in subjects:
        first.setdefault(type(subject.decided.decision), subject)
    for kind, reason in STANDING.items():
        if kind in first:
            return False, reason, _text(first[kind])
    settled = [s.key for s in subjects if s.decided.stability is not None]
    if settled:
        return True, "Enforced", f"{', '.join(settled)} as recommended"
    return (False, *NOTHING_RECOMMENDED)


def _text(subject: Subject) -> str:
    """How a decision is told. It names no remaining time: a text that changed with every look
    would be written with every look."""
    decision, rules = subject.decided.decision, subject.look.rules
    target = getattr(decision, "target", None)
    what = f"{subject.key}={target}" if target is not None else subject.key
    if type(decision) in WAITING:
        _, pattern = WAITING[type(decision)]
        stability, cooldown = spelled_ms(rules.stability_ms), spelled_ms(rules.cooldown_ms)
        return pattern.format(what=what, stability=stability, cooldown=cooldown)
    return f"{what}: {decision.why}" if isinstance(decision, Held) else what


# --- when to look again -------------------------------------------------------------------------


def _requeue(subjects: tuple[Subject, ...]) -> int | None:
    waits = [wait for subject in subjects if (wait := _wait_of(subject)) is not None]
    return max(1, min(waits)) if waits else None


def _wait_of(subject: Subject) -> int | None:
    look, decision = subject.look, subject.decided.decision
    match decision:
        case WaitStability(until=until) | WaitCooldown(until=until):
            return until - look.now
        case Held(target=target, is_passing=is_passing) if target is not None:
            return PASSING_RECHECK_MS if is_passing else HELD_RECHECK_MS
        case NoChange() | SkipMode() if look.enforced.target is not None:
            if subject.decided.stability is None or look.recommendation is None:
                return HELD_RECHECK_MS
            # Should nobody recommend anything any more, no event will say so.
            return look.recommendation.observed_at + look.rules.stale_after_ms + 1 - look.now
    return None


__all__ = ["Decision", "NfrInput", "advice_for", "decide", "event_of", "judge", "rules_of"]

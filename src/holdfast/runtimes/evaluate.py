"""Where a runtime is, what is said of it, and what to do next: a pure function of one look.

Total: every resource with every observation has an answer. Deterministic: the same look has the
same answer. It acts on nothing and remembers nothing; what must be remembered is in the status.
"""

from msgspec.structs import replace

from holdfast.core.amounts import spelled_ms
from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes import nfr, reasons
from holdfast.runtimes.actions import (
    Action,
    ApplyWorkload,
    DeleteOrphans,
    EnsureFinalizer,
    EnsureMetricsTargets,
    MetricsTarget,
)
from holdfast.runtimes.anomalies import Missing, Seen, look
from holdfast.runtimes.conditions import REASONS, Stance, conditions_of
from holdfast.runtimes.ending import evaluate_deletion
from holdfast.runtimes.evaluation import EvalInput, EvalOutput, Tries
from holdfast.runtimes.phases import Signals, next_phase
from holdfast.runtimes.resource import Resource, is_held
from holdfast.runtimes.shrinking import guard
from holdfast.runtimes.status import ApplyCode, ConditionType, Phase, condition_of
from holdfast.runtimes.telling import events_of, functions_of, odgm_of, refs_of, waits_for
from holdfast.runtimes.workload import Workload

ENFORCEMENT_PHASES = (Phase.PROGRESSING, Phase.AVAILABLE)
FINALIZER_TRY = "finalizer"
METRICS_TRY = "metrics"
ORPHAN_TRY = "orphans"


def evaluate(given: EvalInput) -> EvalOutput:
    """The answer to one look."""
    resource, now, config = given.resource, given.now, given.config
    if resource.deleted_at is not None:
        return evaluate_deletion(given, resource.deleted_at)
    status = resource.status
    workloads = given.workloads
    if workloads is None:
        workloads = given.descriptor.render(resource)
    tries = Tries(status.tries, config, now)
    guarded = guard(resource, workloads, given.observed, tries, now=now)
    workloads = guarded.workloads
    seen = look(
        workloads, given.observed, given.descriptor, crash_restarts=config.crash_restarts
    )
    signals = _signals(given, seen, workloads, tries)
    phase = next_phase(status.phase, signals)
    troubles = (_degraded_reason(resource),) if phase is Phase.DEGRADED else ()
    required = nfr.judge(
        resource, phase, given.observed, workloads, now=now, troubles=troubles
    )
    if required.degraded_reason and phase in ENFORCEMENT_PHASES:
        phase = next_phase(status.phase, replace(signals, is_unenforceable=True))
        reason, message = required.degraded_reason, required.degraded_message
    else:
        reason, message = _said(given, phase, signals, seen, tries)
    actions = [*_actions(given, phase, signals, seen, workloads, tries), *required.actions]
    if guarded.step is not None:
        actions.append(ApplyWorkload(generation=resource.generation, workloads=(guarded.step,)))
    actions += events_of(resource, phase, reason, message, actions)
    if required.requeue_after_ms is not None:
        tries.remind(required.requeue_after_ms)
    _remind(given, phase, seen, workloads, tries)
    stance = Stance(
        phase=phase,
        reason=reason,
        message=message,
        upkeep=_upkeep(seen),
        stall=(reason, message) if phase is Phase.DEGRADED else None,
    )
    return EvalOutput(
        phase=phase,
        generation=resource.generation,
        template=resource.spec.template,
        function_keys=tuple(function.key for function in resource.spec.functions),
        conditions=conditions_of(
            stance, status.nfr_recommendations, required, generation=resource.generation
        ),
        functions=functions_of(status, seen, given.descriptor),
        odgm=odgm_of(resource, seen, given.observed, guarded.why),
        resource_refs=refs_of(status, seen.refs, seen.unknown),
        tries=tries.kept,
        stability=required.stability,
        actions=tuple(actions),
        requeue_after_ms=tries.soonest_ms,
    )


def _signals(
    given: EvalInput, seen: Seen, workloads: tuple[Workload, ...], tries: Tries
) -> Signals:
    resource = given.resource
    status = resource.status
    applied = status.apply
    is_current = applied.generation == resource.generation and applied.code != ApplyCode.NONE
    # A failure that may pass is one only when it lasts; the other two will not pass by waiting.
    is_refused = is_current and (
        applied.code in (ApplyCode.CONFLICT, ApplyCode.INVALID)
        or (applied.code == ApplyCode.FAILED and tries.is_spent(_apply_try(resource)))
    )
    is_applied = is_current and applied.code == ApplyCode.OK
    is_unknown = seen.is_unseen
    return Signals(
        is_unheld=status.phase is Phase.PENDING and not is_held(resource),
        is_refused=is_refused,
        is_unapplied=not is_applied,
        is_ready=seen.is_ready,
        is_crashing=seen.crash is not None,
        is_lacking=_lacking(seen, tries) is not None,
        is_unknown=is_unknown and not seen.is_unready,
        is_late=(
            status.phase is Phase.PROGRESSING
            and not is_unknown
            and given.now - progressing_since(resource) >= allowed_ms(resource, workloads)
        ),
        is_stuck=status.phase is Phase.DEGRADED and not _recovers(resource, seen, is_unknown),
    )


def progressing_since(resource: Resource) -> Instant:
    """Since when it has been on its way: since it was last not, or since this generation was
    applied. NEVER is long ago, and only for who is not on its way."""
    condition = condition_of(resource.status, ConditionType.PROGRESSING)
    flipped_at = condition.last_transition_at if condition and condition.is_true else NEVER
    return max(flipped_at, resource.status.apply.since)


def allowed_ms(resource: Resource, workloads: tuple[Workload, ...]) -> int:
    """How long it may be on its way: the pauses of a rollout in steps are no delay."""
    pauses = [
        len(workload.rollout.steps) * int(workload.rollout.pause)
        for workload in workloads
        if workload.rollout.steps
    ]
    return int(resource.spec.timeouts.progress) + max(pauses, default=0)


def _recovers(resource: Resource, seen: Seen, is_unknown: bool) -> bool:
    """Whether what degraded it is gone. The other reasons are looked for anew every time; that
    the time ran out stays true until something moves."""
    if is_unknown:
        return False
    if _degraded_reason(resource) != reasons.TIMEOUT:
        return True
    status = resource.status
    were_ready = sum(function.ready for function in status.functions)
    were_ready += status.odgm.ready if status.odgm else 0
    return seen.ready_replicas > were_ready


def _degraded_reason(resource: Resource) -> str:
    condition = condition_of(resource.status, ConditionType.DEGRADED)
    return condition.reason if condition and condition.is_true else ""


def _degraded_since(resource: Resource) -> Instant:
    condition = condition_of(resource.status, ConditionType.DEGRADED)
    return condition.last_transition_at if condition else NEVER


def _lacking(seen: Seen, tries: Tries) -> str | None:
    if not tries.were_any:
        return None
    for missing in seen.missing:
        if tries.is_spent(_missing_try(missing)):
            return missing.name
    return None


def _missing_try(missing: Missing) -> str:
    return f"missing/{missing.name}"


def _apply_try(resource: Resource) -> str:
    return f"apply/{resource.generation}"


def _said(
    given: EvalInput, phase: Phase, signals: Signals, seen: Seen, tries: Tries
) -> tuple[str, str]:
    """The reason and the message of a phase."""
    if phase is Phase.DEGRADED:
        return _trouble(given, signals, seen, tries)
    if phase is Phase.PENDING:
        return REASONS[phase], "Waiting for the finalizer."
    if phase is Phase.APPLYING:
        return REASONS[phase], f"Applying generation {given.resource.generation}."
    if phase is Phase.AVAILABLE:
        return REASONS[phase], "All functions are ready."
    if signals.is_unapplied:
        return Phase.APPLYING.capitalize(), f"Applying generation {given.resource.generation}."
    return REASONS[phase], waits_for(seen)


def _trouble(
    given: EvalInput, signals: Signals, seen: Seen, tries: Tries
) -> tuple[str, str]:
    """Why it is degraded: the first of what holds, in the order of the phases' own table."""
    resource = given.resource
    applied = resource.status.apply
    if signals.is_refused:
        reason = reasons.APPLY_REASONS[applied.code]
        told = reasons.message_of(reason, child=applied.message, detail=applied.message)
        return reason, told
    if seen.crash is not None:
        crash = seen.crash
        told = reasons.message_of(reasons.CRASH_LOOP, pod=crash.pod, restarts=crash.restarts)
        return reasons.CRASH_LOOP, " ".join([told, *crash.lines])
    lacking = _lacking(seen, tries)
    if lacking is not None:
        return reasons.CHILD_MISSING, reasons.message_of(reasons.CHILD_MISSING, child=lacking)
    if signals.is_late:
        span = spelled_ms(int(resource.spec.timeouts.progress))
        told = reasons.message_of(reasons.TIMEOUT, span=span)
        return reasons.TIMEOUT, f"{told} {waits_for(seen)}"
    # It is as it was: what was said of it still holds.
    condition = condition_of(resource.status, ConditionType.DEGRADED)
    if condition is None or not condition.is_true:
        return REASONS[Phase.DEGRADED], waits_for(seen)
    return condition.reason, condition.message


def _actions(
    given: EvalInput,
    phase: Phase,
    signals: Signals,
    seen: Seen,
    workloads: tuple[Workload, ...],
    tries: Tries,
) -> list[Action]:
    """What to do, most urgent first. A repair follows its own tries."""
    resource, now = given.resource, given.now
    actions: list[Action] = []
    if not is_held(resource) and tries.may(FINALIZER_TRY):
        actions.append(EnsureFinalizer())
    if phase is Phase.PENDING:
        return actions
    if signals.is_unapplied:
        if tries.may(_apply_try(resource)):
            actions.append(ApplyWorkload(generation=resource.generation, workloads=workloads))
        return actions
    wanting = _wanting(seen, tries, resource.status.apply.since + given.config.settle_ms - now)
    if wanting:
        actions.append(ApplyWorkload(generation=resource.generation, workloads=wanting))
    if phase is Phase.AVAILABLE and seen.orphans and tries.may(ORPHAN_TRY):
        actions.append(DeleteOrphans(seen.orphans))
    targets = tuple(
        MetricsTarget(each.name, each.function_key, each.metrics_path, each.metrics_port)
        for each in workloads
        if each.metrics_path
    )
    if names_of(targets) != resource.status.metrics_targets and tries.may(METRICS_TRY):
        actions.append(EnsureMetricsTargets(targets))
    return actions


def names_of(targets: tuple[MetricsTarget, ...]) -> tuple[str, ...]:
    """How ensured targets are remembered: a change of any part is another target."""
    return tuple(f"{each.name} {each.port}{each.path}" for each in targets)


def _wanting(seen: Seen, tries: Tries, settles_in_ms: int) -> tuple[Workload, ...]:
    """Those to be applied again: missing, or told something else than they should be."""
    anomalies = [(_missing_try(missing), missing.workload) for missing in seen.missing]
    anomalies += [(f"outdated/{workload.name}", workload) for workload in seen.outdated]
    if anomalies and settles_in_ms > 0:
        # What was applied just now may not be seen yet.
        tries.remind(settles_in_ms)
        return ()
    wanting = {workload.name: workload for key, workload in anomalies if tries.may(key)}
    return tuple(wanting.values())


def _upkeep(seen: Seen) -> tuple[str, str] | None:
    """What goes on beside the phase."""
    if seen.unknown:
        kind, error = seen.unknown[0]
        told = reasons.message_of(reasons.OBSERVATION_FAILED, kind=kind, detail=error)
        return reasons.OBSERVATION_FAILED, told
    if seen.orphans:
        return reasons.ORPHANED, reasons.message_of(reasons.ORPHANED, child=seen.orphans[0].told)
    return None


def _remind(
    given: EvalInput, phase: Phase, seen: Seen, workloads: tuple[Workload, ...], tries: Tries
) -> None:
    """When to look again, where nothing may happen that says so."""
    resource, now = given.resource, given.now
    was = resource.status.phase
    if seen.unknown:
        tries.remind(given.config.unknown_ms)
    if given.observed.telling.until != NEVER:
        # What is told no more grows old without a sound.
        tries.remind(max(1, given.observed.telling.until + 1 - now))
    if phase is Phase.PROGRESSING:
        since = progressing_since(resource) if was in (phase, Phase.APPLYING) else now
        tries.poll(since)
        left_ms = since + allowed_ms(resource, workloads) - now
        if left_ms > 0:
            # Time that is up and ended nothing waits for something else: a listing, an apply. That
            # has its own time; to look all the while would not bring it about.
            tries.remind(left_ms)
    elif phase is Phase.DEGRADED:
        tries.poll(_degraded_since(resource) if was is phase else now)

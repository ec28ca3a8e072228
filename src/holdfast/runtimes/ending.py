"""The end of a runtime: children go by label, whatever they are, and the finalizer goes last."""

from holdfast.core.ids import Instant
from holdfast.runtimes import reasons
from holdfast.runtimes.actions import (
    Action,
    DeleteChildren,
    EmitEvent,
    NfrJudgement,
    RemoveFinalizer,
)
from holdfast.runtimes.anomalies import unknown_kinds
from holdfast.runtimes.conditions import REASONS, Stance, conditions_of
from holdfast.runtimes.evaluation import EvalInput, EvalOutput, Tries
from holdfast.runtimes.observed import Known, ManagedKind
from holdfast.runtimes.phases import Signals, next_phase
from holdfast.runtimes.resource import is_held
from holdfast.runtimes.status import ConditionType, Phase, ResourceRef, condition_of
from holdfast.runtimes.telling import refs_of

CHILDREN_TRY = "children"
RELEASE_TRY = "release"
NOTHING_ENFORCED = NfrJudgement(reason="Deleting", message="Nothing is enforced any more.")


def evaluate_deletion(given: EvalInput, deleted_at: Instant) -> EvalOutput:
    """One look at a runtime that is to go. A kind that could not be listed may have children: the
    finalizer stays until every listing came, and came empty."""
    resource, now = given.resource, given.now
    status = resource.status
    unknown = unknown_kinds(given.observed, given.descriptor)
    left = tuple(
        ResourceRef(kind, child.name)
        for kind, listing in given.observed.children.items()
        if isinstance(listing, Known)
        for child in listing.children
    )
    tries = Tries(status.tries, given.config, now)
    actions: list[Action] = []
    if left and tries.may(CHILDREN_TRY):
        actions.append(DeleteChildren(left))
    if not left and not unknown and is_held(resource) and tries.may(RELEASE_TRY):
        actions.append(RemoveFinalizer())
    if left or unknown:
        tries.poll(deleted_at)
    stall = None
    if now - deleted_at >= resource.spec.timeouts.delete:
        stall = _stall(left, unknown)
    message = f"{len(left)} children are left." if left else "No child is left."
    reason = REASONS[Phase.DELETING]
    if status.phase is not Phase.DELETING:
        actions.append(EmitEvent(reason=reason, message=message))
    stalled = condition_of(status, ConditionType.STALLED)
    was_stalled = stalled is not None and stalled.is_true and status.phase is Phase.DELETING
    if stall is not None and not was_stalled:
        actions.append(EmitEvent(reason=stall[0], message=stall[1], is_warning=True))
    stance = Stance(
        phase=next_phase(status.phase, Signals(is_deleted=True)),
        reason=reason,
        message=message,
        stall=stall,
    )
    return EvalOutput(
        phase=stance.phase,
        generation=resource.generation,
        template=resource.spec.template,
        function_keys=tuple(function.key for function in resource.spec.functions),
        conditions=conditions_of(
            stance, status.nfr_recommendations, NOTHING_ENFORCED, generation=resource.generation
        ),
        functions=status.functions,
        odgm=status.odgm,
        resource_refs=refs_of(status, left, unknown),
        tries=tries.kept,
        stability={},
        actions=tuple(actions),
        requeue_after_ms=tries.soonest_ms,
    )


def _stall(
    left: tuple[ResourceRef, ...], unknown: tuple[tuple[ManagedKind, str], ...]
) -> tuple[str, str] | None:
    """What keeps it from ending, once it should have ended."""
    if left:
        told = reasons.message_of(reasons.DELETION_STUCK, count=len(left), child=left[0].told)
        return reasons.DELETION_STUCK, told
    if unknown:
        kind, error = unknown[0]
        told = reasons.message_of(reasons.OBSERVATION_FAILED, kind=kind, detail=error)
        return reasons.DELETION_STUCK, told
    return None

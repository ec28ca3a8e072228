"""What is said of a runtime beside its conditions: of each function, the data grid, as events."""

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.runtimes import reasons
from holdfast.runtimes.actions import Action, DeleteOrphans, EmitEvent
from holdfast.runtimes.anomalies import Judged, Seen
from holdfast.runtimes.conditions import REASONS
from holdfast.runtimes.descriptor import TemplateDescriptor
from holdfast.runtimes.observed import ManagedKind, Observed
from holdfast.runtimes.resource import FUNCTION, ODGM, Resource
from holdfast.runtimes.shrinking import REASON as SHRINKING
from holdfast.runtimes.status import (
    ConditionType,
    FunctionStatus,
    OdgmStatus,
    Phase,
    ResourceRef,
    Status,
    condition_of,
)

APPLIED = "Applied"
WAITS_MOST = 3
"""So many are named of those that are waited for; the status of each function has the rest."""

MESSAGE_MOST = 500
"""So much is said of a function at most: a status holds what is said of all of them."""


def waits_for(seen: Seen) -> str:
    """Who is not ready, and why."""
    unready, total = seen.unready, len(seen.judged)
    told = [f"{_called(each)}: {each.message[:MESSAGE_MOST]}" for each in unready[:WAITS_MOST]]
    if len(unready) > WAITS_MOST:
        told.append(f"and {len(unready) - WAITS_MOST} more")
    return f"{total - len(unready)} of {total} ready; {'; '.join(told)}" if told else ""


def _called(judged: Judged) -> str:
    return judged.workload.function_key or judged.workload.component


def functions_of(
    status: Status, seen: Seen, descriptor: TemplateDescriptor
) -> tuple[FunctionStatus, ...]:
    """One record a function. Of one that could not be seen the last that is known stays."""
    before = {each.function_key: each for each in status.functions} if seen.is_unseen else {}
    found: list[FunctionStatus] = []
    for each in seen.judged:
        if each.workload.component == FUNCTION:
            is_unseen = each.is_unknown and each.child is None
            last = before.get(each.workload.function_key) if is_unseen else None
            found.append(last or _function(each, descriptor))
    return tuple(found)


def _function(judged: Judged, descriptor: TemplateDescriptor) -> FunctionStatus:
    workload, child = judged.workload, judged.child
    return FunctionStatus(
        function_key=workload.function_key,
        service=workload.name,
        url=descriptor.url_of(workload.name),
        is_ready=judged.is_ready,
        desired=workload.replicas,
        ready=child.ready if child else 0,
        updated=child.updated if child else 0,
        revision=workload.revision,
        reason=judged.reason,
        message=judged.message[:MESSAGE_MOST],
        rollout=child.rollout if child else None,
    )


def odgm_of(
    resource: Resource, seen: Seen, observed: Observed, shrinks: str
) -> OdgmStatus | None:
    """The data grid's record; None where none is wanted. `shrinks` says how far it is from the
    smaller size that was declared; empty where it is not on its way there."""
    for judged in seen.judged:
        if judged.workload.component == ODGM:
            break
    else:
        return None
    workload, child, odgm = judged.workload, judged.child, resource.spec.odgm
    known = resource.status.odgm
    if judged.is_unknown and known is not None:
        # Of what is not known now the last that is known stays.
        return replace(known, ready=child.ready) if child is not None else known
    partitions = observed.partitions
    healthy = None if partitions is None else sum(each.is_green for each in partitions)
    return OdgmStatus(
        service=workload.name,
        is_ready=judged.is_ready,
        desired=workload.replicas,
        ready=child.ready if child else 0,
        partitions=odgm.partitions if odgm else 0,
        healthy_partitions=healthy,
        reason=SHRINKING if shrinks and judged.is_ready else judged.reason,
        message="; ".join(filter(None, (judged.message, shrinks))),
    )


def refs_of(
    status: Status,
    refs: Iterable[ResourceRef],
    unknown: tuple[tuple[ManagedKind, str], ...],
) -> tuple[ResourceRef, ...]:
    """Every child there is, in order; of kinds that could not be listed those known before."""
    if not unknown:
        return tuple(sorted(refs))
    kinds = {str(kind) for kind, _ in unknown}
    known = [ref for ref in status.resource_refs if ref.kind in kinds]
    return tuple(sorted({*refs, *known}))


def events_of(
    resource: Resource, phase: Phase, reason: str, message: str, actions: Iterable[Action]
) -> list[EmitEvent]:
    """What is worth telling whoever watches: told when it changes, not while it lasts."""
    status = resource.status
    told: list[EmitEvent] = []
    if status.phase is Phase.APPLYING and phase is Phase.PROGRESSING:
        message_of_apply = f"Generation {resource.generation} is applied."
        told.append(EmitEvent(reason=APPLIED, message=message_of_apply))
    if phase is Phase.DEGRADED:
        before = condition_of(status, ConditionType.DEGRADED)
        if status.phase is not phase or before is None or before.reason != reason:
            told.append(EmitEvent(reason=reason, message=message, is_warning=True))
    elif status.phase is not phase:
        told.append(EmitEvent(reason=REASONS[phase], message=message))
    for action in actions:
        if isinstance(action, DeleteOrphans):
            told += [
                EmitEvent(
                    reason=reasons.ORPHANED,
                    message=reasons.message_of(reasons.ORPHANED, child=ref.told),
                )
                for ref in action.children
            ]
    return told

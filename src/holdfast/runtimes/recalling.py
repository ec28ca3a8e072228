"""What was told about a runtime, found again in what was written down of it.

A status says how a runtime stands and not how it came to that, but two of them in a row do. What
follows here from a pair is what the loop told when it wrote the second, in the same words, so that
a restart forgets as little as possible. What no status shows is lost with the process: which
orphans went one by one, and what an analyzer complained of.
"""

from collections.abc import Iterator
from typing import Final

from holdfast.runtimes import reasons
from holdfast.runtimes.actions import EmitEvent
from holdfast.runtimes.conditions import REASONS
from holdfast.runtimes.enforcing import CLAMPED
from holdfast.runtimes.judgement import WAITING
from holdfast.runtimes.status import ConditionType, Phase, Status, condition_of
from holdfast.runtimes.telling import APPLIED

SKIPPED: Final = {decision.__name__: reason for decision, (reason, _) in WAITING.items()}


def told_between(before: Status, after: Status, generation: int) -> Iterator[EmitEvent]:
    """What was told when the one became the other. `generation` is the one that was declared."""
    yield from _of_phase(before, after, generation)
    yield from _of_upkeep(before, after)
    yield from _of_enforcement(before, after)


def _of_phase(before: Status, after: Status, generation: int) -> Iterator[EmitEvent]:
    if before.phase is Phase.APPLYING and after.phase is Phase.PROGRESSING:
        yield EmitEvent(reason=APPLIED, message=f"Generation {generation} is applied.")
    reason, message = _said(after, ConditionType.DEGRADED)
    if after.phase is Phase.DEGRADED:
        if before.phase is not after.phase or _said(before, ConditionType.DEGRADED)[0] != reason:
            yield EmitEvent(reason=reason, message=message, is_warning=True)
    elif before.phase is not after.phase:
        yield EmitEvent(reason=REASONS[after.phase], message=message)


def _of_upkeep(before: Status, after: Status) -> Iterator[EmitEvent]:
    was_stalled = before.phase is Phase.DELETING and _is(before, ConditionType.STALLED)
    is_stalled = after.phase is Phase.DELETING and _is(after, ConditionType.STALLED)
    if is_stalled and not was_stalled:
        reason, message = _said(after, ConditionType.STALLED)
        yield EmitEvent(reason=reason, message=message, is_warning=True)
    reason, message = _said(after, ConditionType.RECONCILING)
    if reason == reasons.ORPHANED and _said(before, ConditionType.RECONCILING) != (reason, message):
        yield EmitEvent(reason=reason, message=message)


def _of_enforcement(before: Status, after: Status) -> Iterator[EmitEvent]:
    for key, held in sorted(after.stability.items()):
        known = before.stability.get(key)
        said = known.decision if known is not None else ""
        if held.decision.endswith(CLAMPED) and not said.endswith(CLAMPED):
            yield EmitEvent(reason="NFRClampedMax", message=f"{key}: more is recommended")
        decision = held.decision.removesuffix(CLAMPED)
        if decision in SKIPPED and said.removesuffix(CLAMPED) != decision:
            yield EmitEvent(reason=SKIPPED[decision], message=f"{key}={held.target} waits")
    for key, now in sorted(after.enforced.items()):
        then = before.enforced.get(key)
        if now.failures > (0 if then is None else then.failures):
            text = f"{key}: {now.reason}: {now.message}"
            yield EmitEvent(reason="NFRApplyFailed", message=text, is_warning=True)
    fresh = [
        each
        for each in after.last_applied_recommendations
        if each not in before.last_applied_recommendations
    ]
    for each in fresh:
        key = f"{each.dimension}/{each.function_key}" if each.function_key else each.dimension
        yield EmitEvent(reason="NFRApplied", message=f"{key} is {each.target} ({each.basis})")


def _said(status: Status, kind: ConditionType) -> tuple[str, str]:
    found = condition_of(status, kind)
    return ("", "") if found is None else (found.reason, found.message)


def _is(status: Status, kind: ConditionType) -> bool:
    found = condition_of(status, kind)
    return found is not None and found.is_true

"""How what is new comes into a status: each field by its own rule, nothing clobbered.

Every field has one writer, and every writer goes through here, so that two who write at once lose
nothing whichever comes first. Doing the same twice is doing it once. Times that only say when
something was written or last changed make no difference: see `same`.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.actions import ApplyOutcome, EnforcementOutcome
from holdfast.runtimes.evaluation import EvalOutput
from holdfast.runtimes.status import (
    ADDRESSES_MOST,
    AUDIT_MOST,
    AppliedRecommendation,
    ApplyCode,
    ApplyResult,
    Condition,
    Enforced,
    FunctionStatus,
    Recommendation,
    Router,
    Status,
    parse_target_key,
)

T = TypeVar("T")


def reduce(status: Status, output: EvalOutput, *, now: Instant) -> Status:
    """The status after an evaluation."""
    keys = set(output.function_keys)
    merged = replace(
        status,
        phase=output.phase,
        observed_generation=output.generation,
        template=output.template,
        conditions=merge_conditions(status.conditions, output.conditions, now=now),
        functions=_functions(status, output),
        odgm=output.odgm,
        resource_refs=tuple(sorted(dict.fromkeys(output.resource_refs))),
        tries=output.tries,
        stability=output.stability,
        # What belongs to a function goes with it; what holds for all stays.
        nfr_recommendations=_of_those_left(status.nfr_recommendations, keys),
        enforced=_of_those_left(status.enforced, keys),
    )
    return _written(status, merged, now)


def merge_conditions(
    before: Iterable[Condition], told: Iterable[Condition], *, now: Instant
) -> tuple[Condition, ...]:
    """By type: what is told replaces what was, and what nobody speaks of stays. The time of the
    last transition moves only when true becomes false or false true."""
    merged = {condition.type: condition for condition in before}
    for condition in told:
        known = merged.get(condition.type)
        is_kept = known is not None and known.is_true == condition.is_true
        since = known.last_transition_at if known is not None and is_kept else now
        merged[condition.type] = replace(condition, last_transition_at=since)
    return tuple(merged.values())


def _functions(status: Status, output: EvalOutput) -> tuple[FunctionStatus, ...]:
    """Those of the spec and no others. What was predicted stays while the template does."""
    if status.template != output.template:
        return output.functions
    before = {function.function_key: function for function in status.functions}
    return tuple(
        function
        if (known := before.get(function.function_key)) is None
        else replace(
            function, service=known.service or function.service, url=known.url or function.url
        )
        for function in output.functions
    )


def _of_those_left(by_target: dict[str, T], keys: set[str]) -> dict[str, T]:
    return {
        key: value
        for key, value in by_target.items()
        if not (function_key := parse_target_key(key)[1]) or function_key in keys
    }


def record_apply(status: Status, outcome: ApplyOutcome, *, now: Instant) -> Status:
    """The status after an apply. That this generation was applied well once stays known."""
    before = status.apply
    since = NEVER
    if outcome.generation == before.generation and before.since != NEVER:
        since = before.since
    elif outcome.code == ApplyCode.OK:
        since = now
    result = ApplyResult(
        generation=outcome.generation, code=outcome.code, message=outcome.message, since=since
    )
    if outcome.generation < before.generation:
        # The answer to an older question: the newer one's stands.
        return status
    return _written(status, replace(status, apply=result), now)


def record_metrics(status: Status, names: tuple[str, ...], *, now: Instant) -> Status:
    """The status after these targets, and no others, were ensured."""
    return _written(status, replace(status, metrics_targets=names), now)


def record_recommendations(
    status: Status,
    recommendations: Mapping[str, Recommendation],
    *,
    stale_after_ms: int,
    now: Instant,
) -> Status:
    """The status after an analyzer spoke, the only writer of these. What it does not speak of
    stays, and grows old. What says the same as before is taken over when half the time until it
    would be stale is gone, and all of it together, so that a steady load is no stream of writes."""
    merged = dict(status.nfr_recommendations)
    newer = {
        key: told
        for key, told in sorted(recommendations.items())
        if (known := merged.get(key)) is None or told.observed_at >= known.observed_at
    }
    if any(_says_more(merged.get(key), told, stale_after_ms) for key, told in newer.items()):
        merged |= newer
    return _written(status, replace(status, nfr_recommendations=merged), now)


def _says_more(known: Recommendation | None, told: Recommendation, stale_after_ms: int) -> bool:
    return (
        known is None
        or replace(told, observed_at=known.observed_at) != known
        or told.observed_at - known.observed_at >= stale_after_ms // 2
    )


def apply_enforcement(status: Status, outcome: EnforcementOutcome, *, now: Instant) -> Status:
    """The status after an enforcement. One that went well is appended to the trail and begins the
    cooldown; one that did not is counted, with its reason. Recommendations stay as they are. An
    outcome that was told before is not counted again."""
    before = status.enforced.get(outcome.key, Enforced())
    if NEVER < outcome.at <= before.at:
        return status
    if outcome.reason:
        failed = replace(
            before,
            cooldown_until=outcome.cooldown_until,
            failures=before.failures + 1,
            reason=outcome.reason,
            message=outcome.message,
            at=outcome.at,
        )
        enforced = {**status.enforced, outcome.key: failed}
        return _written(status, replace(status, enforced=enforced), now)
    done = Enforced(
        target=outcome.target, cooldown_until=outcome.cooldown_until, at=outcome.at
    )
    trail = status.last_applied_recommendations
    if outcome.target is not None:
        applied = AppliedRecommendation(
            component=outcome.component,
            dimension=outcome.dimension,
            target=outcome.target,
            basis=outcome.basis,
            confidence=outcome.confidence,
            function_key=outcome.function_key,
            applied_at=outcome.at,
        )
        trail = (*trail, applied)[-AUDIT_MOST:]
    merged = replace(
        status,
        enforced={**status.enforced, outcome.key: done},
        last_applied_recommendations=trail,
        last_applied_at=outcome.at,
    )
    return _written(status, merged, now)


def refresh_routers(status: Status, routers: Iterable[Router], *, now: Instant) -> Status:
    """The status after discovery: the routers there are, in order, when they changed."""
    found = sorted(routers)
    room = ADDRESSES_MOST // max(1, len(found))
    kept = tuple(
        Router(
            each.service, tuple(sorted(each.addresses)[:room]), max(0, len(each.addresses) - room)
        )
        for each in found
    )
    return _written(status, replace(status, routers=kept), now)


def same(one: Status, other: Status) -> bool:
    """Whether two say the same: when it was written and when conditions last changed aside."""
    return _without_times(one) == _without_times(other)


def _without_times(status: Status) -> Status:
    return replace(
        status,
        last_updated_at=NEVER,
        conditions=tuple(
            replace(condition, last_transition_at=NEVER) for condition in status.conditions
        ),
    )


def _written(before: Status, after: Status, now: Instant) -> Status:
    """The new one where it says something new, else the old one itself: nothing to write."""
    return before if same(before, after) else replace(after, last_updated_at=now)

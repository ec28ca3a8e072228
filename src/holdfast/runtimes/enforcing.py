"""Whether a recommendation becomes a target: the decision for one dimension of one component.

A target is carried out when it has held for the stability window, the last change is a cooldown
ago, and the gates of its phase and dimension are open. It is kept within its bounds. Upwards it is
reached at once, downwards by a few replicas a cooldown. A recommendation that goes away, or grows
old, gives way to what was declared, by the same steps. Once what runs is what is wanted nothing
more is decided, however long it is looked at.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.gates import (
    Situation,
    closed_gate,
    closed_phase,
    is_followed,
    opens_soon,
)
from holdfast.runtimes.quorum import one_step
from holdfast.runtimes.spec import ODGM_REPLICAS, REPLICAS, Mode
from holdfast.runtimes.status import Enforced, Phase, Recommendation, Stability

CLAMPED: Final = " clamped"
"""Stands behind a remembered decision whose target was cut down to the highest allowed."""


class Apply(Struct, frozen=True, gc=False):
    """Bring it to `target` now. `clamped`: more, or less, had been recommended."""

    target: int
    clamped: bool = False


class ResetTarget(Struct, frozen=True, gc=False):
    """Nobody recommends anything any more: bring it to `target` now, a step towards what was
    declared. The last step ends the enforcement; from then on what is declared holds."""

    target: int


class NoChange(Struct, frozen=True, gc=False):
    """It is what it should be."""

    clamped: bool = False


class WaitStability(Struct, frozen=True, gc=False):
    """The target has not held long enough; it will have at `until`."""

    target: int
    until: Instant
    clamped: bool = False


class WaitCooldown(Struct, frozen=True, gc=False):
    """The last change is too recent; it will not be at `until`."""

    target: int
    until: Instant
    clamped: bool = False


class SkipMode(Struct, frozen=True, gc=False):
    """Nothing is enforced in this mode."""

    mode: Mode


class Held(Struct, frozen=True, gc=False):
    """A gate is closed, and `why`. `target` is None where none was looked for. `is_passing`: time
    alone will open it, and soon."""

    why: str
    target: int | None = None
    clamped: bool = False
    is_passing: bool = False


Decision = Apply | ResetTarget | NoChange | WaitStability | WaitCooldown | SkipMode | Held


class Rules(Struct, frozen=True, kw_only=True, gc=False):
    """What was declared about enforcing one dimension. `step_down` zero: downwards at once too.
    `high` None: no bound upwards."""

    mode: Mode
    low: int
    high: int | None
    stability_ms: int
    cooldown_ms: int
    stale_after_ms: int
    step_down: int
    enforce_in: tuple[str, ...]


class NfrInput(Struct, frozen=True, kw_only=True, gc=False):
    """One look at one dimension of one component.

    `declared` is what the spec says, `actual` what the child was last told, None where that is
    not known. `troubles` are the reasons for which the runtime is degraded. `situation` holds what
    the gates look at of the whole runtime; what is this dimension's own is filled in here.
    """

    dimension: str
    rules: Rules
    phase: Phase
    troubles: tuple[str, ...] = ()
    recommendation: Recommendation | None
    generation: int
    declared: int
    actual: int | None
    is_autoscaled: bool = False
    replicas_ready: int | None = None
    replicas_leaving: int = 0
    stability: Stability | None
    enforced: Enforced
    situation: Situation
    now: Instant


class Decided(Struct, frozen=True, gc=False):
    """The decision, and what to remember of the target; None: nothing."""

    decision: Decision
    stability: Stability | None


class Wish(Struct, frozen=True, gc=False):
    """Where a dimension should be, whatever stands in the way."""

    target: int
    clamped: bool
    is_capped: bool
    is_reset: bool


def is_fresh(
    recommendation: Recommendation, *, generation: int, stale_after_ms: int, now: Instant
) -> bool:
    """Whether it was made for this generation, and not too long ago."""
    age_ms = now - recommendation.observed_at
    return recommendation.generation == generation and age_ms <= stale_after_ms


def wish_of(look: NfrInput) -> Wish | None:
    """What a fresh recommendation asks for, within its bounds; what was declared, where one was
    enforced and no fresh one is there; else nothing."""
    rules, advice = look.rules, look.recommendation
    if look.declared <= 0:
        # What is declared to have no replicas is off, and what has no request cannot be tuned.
        return None
    if advice is not None and is_fresh(
        advice,
        generation=look.generation,
        stale_after_ms=rules.stale_after_ms,
        now=look.now,
    ):
        capped = advice.value if rules.high is None else min(advice.value, rules.high)
        target = max(rules.low, capped)
        return Wish(target, target != advice.value, capped != advice.value, is_reset=False)
    if look.enforced.target is not None:
        return Wish(look.declared, clamped=False, is_capped=False, is_reset=True)
    return None


def decide(look: NfrInput) -> Decided:
    """Total and pure: the same look gives the same decision."""
    if look.rules.mode != "enforce":
        return Decided(SkipMode(look.rules.mode), None)
    if not is_followed(look.phase, look.troubles):
        # Whoever comes back from there has to hold its target for the whole window anew.
        return Decided(Held(f"nothing is followed while {look.phase}"), None)
    if look.actual is None:
        return Decided(Held("what runs is not known"), look.stability)
    wish = wish_of(look)
    if wish is None:
        return Decided(NoChange(), None)
    since = _held_since(look, wish)
    decision = _judged(look, wish, look.actual, since)
    label = type(decision).__name__ + (CLAMPED if wish.is_capped else "")
    held = Stability(target=wish.target, last_change_at=since, decision=label)
    return Decided(decision, held)


def _held_since(look: NfrInput, wish: Wish) -> Instant:
    known = look.stability
    return known.last_change_at if known and known.target == wish.target else look.now


def _judged(look: NfrInput, wish: Wish, actual: int, since: Instant) -> Decision:
    rules, target, clamped = look.rules, wish.target, wish.clamped
    is_new = look.stability is None or look.stability.target != target
    if actual == target and not wish.is_reset:
        return NoChange(clamped)
    stable_at = Instant(since + rules.stability_ms)
    if is_new:
        return WaitStability(target, stable_at, clamped)
    if look.now < look.enforced.cooldown_until:
        return WaitCooldown(target, look.enforced.cooldown_until, clamped)
    if look.now < stable_at:
        return WaitStability(target, stable_at, clamped)
    if held := _held(look, wish, actual):
        return held
    step = _step(look, actual, target)
    return ResetTarget(step) if wish.is_reset else Apply(step, clamped)


def _held(look: NfrInput, wish: Wish, actual: int) -> Held | None:
    if why := closed_phase(look.phase, look.rules.enforce_in, look.troubles):
        return Held(why, wish.target, wish.clamped)
    advice = None if wish.is_reset else look.recommendation
    situation = replace(
        look.situation,
        actual=actual,
        target=wish.target,
        confidence=1.0 if advice is None else advice.confidence,
        is_autoscaled=look.is_autoscaled,
        changed_at=look.enforced.at,
        replicas_ready=look.replicas_ready,
        replicas_leaving=look.replicas_leaving,
    )
    if why := closed_gate(look.dimension, situation):
        is_passing = opens_soon(look.dimension, situation)
        return Held(why, wish.target, wish.clamped, is_passing)
    return None


def _step(look: NfrInput, actual: int, target: int) -> int:
    """How far one change may go."""
    if look.dimension == ODGM_REPLICAS:
        return one_step(actual, target)
    if look.dimension == REPLICAS and look.rules.step_down:
        return max(target, actual - look.rules.step_down)
    return target

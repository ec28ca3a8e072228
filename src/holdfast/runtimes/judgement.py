"""From the decisions of one look to what is done, told and remembered of them, how `NfrEnforced`
stands, and when to look again."""

from collections.abc import Iterator
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
    wish_of,
)
from holdfast.runtimes.gates import is_followed
from holdfast.runtimes.spec import Mode
from holdfast.runtimes.status import Stability
from holdfast.runtimes.stillness import RESTING, Still
from holdfast.runtimes.workload import Workload

FAILURES_MOST: Final = 3
"""So many failed enforcements in a row degrade a runtime."""

HELD_RECHECK_MS: Final = 15_000
"""How often a closed gate is looked at: what it measures changes without telling."""

PASSING_RECHECK_MS: Final = 1_000
"""The same where time alone will open it."""


class Subject(Struct, frozen=True, gc=False):
    """One dimension of one component, looked at and decided."""

    key: str
    workload: Workload
    look: NfrInput
    decided: Decided


class Kept(Struct, frozen=True, gc=False):
    """One dimension of one component of which the last decision holds."""

    key: str
    still: Still
    rules: Rules


def is_broken(subject: Subject) -> bool:
    """Whether enforcing this failed so often that the runtime is degraded by it."""
    return is_failing(subject) and subject.look.enforced.failures >= FAILURES_MOST


def is_failing(subject: Subject) -> bool:
    """Whether the last try failed and there still is something to enforce."""
    is_over = isinstance(subject.decided.decision, NoChange | SkipMode)
    return not is_over and subject.look.enforced.failures > 0


class Judging:
    """What the decisions of one look come to, one added after another."""

    def __init__(self) -> None:
        self.stability: dict[str, Stability] = {}
        self.actions: list[Enforce | EmitEvent] = []
        self.soonest_ms: int | None = None
        self._first: dict[type[Decision], Subject | Kept] = {}
        self._failing: Subject | None = None
        self._broken: Subject | None = None

    def still(self, key: str, still: Still, known: Stability, rules: Rules) -> None:
        """What was decided at the last look holds: nothing is done or told."""
        self.stability[key] = known
        if still is RESTING:
            return
        if still.decision not in self._first:
            self._first[still.decision] = Kept(key, still, rules)
        wait_ms, soonest_ms = still.wait_ms, self.soonest_ms
        if wait_ms is not None and (soonest_ms is None or wait_ms < soonest_ms):
            self.soonest_ms = wait_ms

    def add(self, subject: Subject) -> None:
        decided = subject.decided
        if decided.stability is not None:
            self.stability[subject.key] = decided.stability
        self.actions += _actions(subject)
        self._first.setdefault(type(decided.decision), subject)
        if is_failing(subject):
            self._failing = self._failing or subject
        if is_broken(subject):
            self._broken = self._broken or subject
        wait_ms = _wait_of(subject)
        if wait_ms is not None and (self.soonest_ms is None or wait_ms < self.soonest_ms):
            self.soonest_ms = wait_ms

    def made(self, mode: Mode) -> NfrJudgement:
        is_enforced, reason, message = self._condition(mode)
        broken = self._broken.look.enforced if self._broken is not None else None
        return NfrJudgement(
            actions=tuple(self.actions),
            stability=self.stability,
            requeue_after_ms=None if self.soonest_ms is None else max(1, self.soonest_ms),
            is_enforced=is_enforced,
            reason=reason,
            message=message,
            degraded_reason=broken.reason if broken else "",
            degraded_message=broken.message if broken else "",
        )

    def _condition(self, mode: Mode) -> tuple[bool, str, str]:
        if mode in MODES:
            return (False, *MODES[mode])
        if self._failing is not None:
            enforced = self._failing.look.enforced
            return False, enforced.reason, f"{self._failing.key}: {enforced.message}"
        for kind, reason in STANDING.items():
            if kind in self._first:
                return False, reason, _text(self._first[kind])
        if self.stability:
            return True, "Enforced", f"{', '.join(self.stability)} as recommended"
        return (False, *NOTHING_RECOMMENDED)


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


def _text(told: Subject | Kept) -> str:
    """How a decision is told. It names no remaining time: a text that changed with every look
    would be written with every look."""
    if isinstance(told, Kept):
        return _waiting(told.still.decision, told.key, told.still.target, told.rules)
    decision, rules = told.decided.decision, told.look.rules
    target = getattr(decision, "target", None)
    if type(decision) in WAITING and target is not None:
        return _waiting(type(decision), told.key, target, rules)
    what = f"{told.key}={target}" if target is not None else told.key
    return f"{what}: {decision.why}" if isinstance(decision, Held) else what


def _waiting(kind: type[Decision], key: str, target: int, rules: Rules) -> str:
    _, pattern = WAITING[kind]
    stability, cooldown = spelled_ms(rules.stability_ms), spelled_ms(rules.cooldown_ms)
    return pattern.format(what=f"{key}={target}", stability=stability, cooldown=cooldown)


# --- when to look again -------------------------------------------------------------------------


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

"""Whether what was decided at the last look still holds, found without deciding it anew.

Most looks change nothing: a target is where it should be, or it still waits for the same thing.
Whoever finds that has the answer of `enforcing.decide`, at a fraction of what that takes; whoever
does not has to ask it.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from holdfast.core.ids import Instant
from holdfast.runtimes.enforcing import (
    CLAMPED,
    Decision,
    NoChange,
    Rules,
    WaitCooldown,
    WaitStability,
)
from holdfast.runtimes.status import Enforced, Recommendation, Stability


class Still(Struct, frozen=True, gc=False):
    """The decision that still holds, of which target, and in how long to look again; None: there
    is no need."""

    decision: type[Decision]
    target: int = 0
    wait_ms: int | None = None


RESTING: Final = Still(NoChange)


LABELS: Final[dict[type[Decision], str]] = {
    kind: kind.__name__ for kind in (NoChange, WaitCooldown, WaitStability)
}
"""How what may still hold is remembered."""

CLAMPED_LABELS: Final = {kind: label + CLAMPED for kind, label in LABELS.items()}
"""The same of what was cut down to the highest allowed."""

Shortcut = Callable[
    [Rules, Recommendation, Stability, Enforced, int, int, Instant], Still | None
]


def still(
    rules: Rules,
    advice: Recommendation,
    known: Stability,
    enforced: Enforced,
    actual: int,
    generation: int,
    now: Instant,
) -> Still | None:
    """For a dimension that is declared, enforced and followed: what holds as it did; None where
    something is new, is due, or has failed."""
    stale_at = advice.observed_at + rules.stale_after_ms + 1
    if advice.generation != generation or now >= stale_at or enforced.failures:
        return None
    value, high = advice.value, rules.high
    capped = value if high is None or value <= high else high
    target = capped if capped >= rules.low else rules.low
    if target != known.target:
        return None
    if actual == target:
        # Should nobody recommend anything any more, no event will say so.
        is_bare = enforced.target is None
        found = RESTING if is_bare else Still(NoChange, target, stale_at - now)
    elif now < enforced.cooldown_until:
        found = Still(WaitCooldown, target, enforced.cooldown_until - now)
    else:
        stable_at = known.last_change_at + rules.stability_ms
        if now >= stable_at:
            return None
        found = Still(WaitStability, target, stable_at - now)
    labels = LABELS if capped == value else CLAMPED_LABELS
    return found if known.decision == labels[found.decision] else None


def never(*_look: object) -> None:
    """No shortcut: every decision is made anew."""

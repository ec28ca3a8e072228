"""The eight conditions: all of them told every time, so that none can stay true by being forgotten.

Three follow the phase by a table, and three more say the same in the words of tools that wait for
any resource (`Ready`, `Reconciling`, `Stalled`). The two of the requirements follow what analyzer
and enforcement did.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from holdfast.runtimes.actions import NfrJudgement
from holdfast.runtimes.status import Condition, ConditionType, Phase, Recommendation

MATRIX: Final[Mapping[Phase, tuple[bool, bool, bool, bool]]] = {
    Phase.PENDING: (False, False, False, True),
    Phase.APPLYING: (True, False, False, True),
    Phase.PROGRESSING: (True, False, False, True),
    Phase.AVAILABLE: (False, True, False, False),
    Phase.DEGRADED: (False, False, True, False),
    Phase.DELETING: (False, False, False, True),
}
"""Whether `Progressing`, `Available`, `Degraded` and `Reconciling` are true in a phase."""

REASONS: Final[Mapping[Phase, str]] = {
    Phase.PENDING: "Pending",
    Phase.APPLYING: "Applying",
    Phase.PROGRESSING: "AwaitingReadiness",
    Phase.AVAILABLE: "Available",
    Phase.DEGRADED: "Degraded",
    Phase.DELETING: "Deleting",
}
"""The reason that a phase gives, where nothing more special is to be said."""

OBSERVED: Final = "RecommendationsPresent"
NOT_OBSERVED: Final = "NoRecommendations"


class Stance(Struct, frozen=True, kw_only=True, gc=False):
    """The phase, and what is to be said of it. `upkeep` is what still goes on in a phase that has
    otherwise come to rest; `stall` is what keeps it from going on, both (reason, message)."""

    phase: Phase
    reason: str
    message: str
    upkeep: tuple[str, str] | None = None
    stall: tuple[str, str] | None = None


def conditions_of(
    stance: Stance,
    recommendations: Mapping[str, Recommendation],
    nfr: NfrJudgement,
    *,
    generation: int,
) -> tuple[Condition, ...]:
    """All eight. When each last changed is the reducer's to say."""
    is_progressing, is_available, is_degraded, is_reconciling = MATRIX[stance.phase]
    reason, message = stance.reason, stance.message
    upkeep = stance.upkeep or (reason, message)
    stall = stance.stall or ("NotStalled", "")

    def told(kind: ConditionType, is_true: bool, why: str, says: str) -> Condition:
        return Condition(
            type=kind, is_true=is_true, reason=why, message=says, observed_generation=generation
        )

    return (
        told(ConditionType.PROGRESSING, is_progressing, reason, message),
        told(ConditionType.AVAILABLE, is_available, reason, message),
        told(ConditionType.DEGRADED, is_degraded, reason, message),
        told(
            ConditionType.NFR_OBSERVED,
            bool(recommendations),
            OBSERVED if recommendations else NOT_OBSERVED,
            ", ".join([f"{key}={recommendations[key].value}" for key in sorted(recommendations)]),
        ),
        told(ConditionType.NFR_ENFORCED, nfr.is_enforced, nfr.reason, nfr.message),
        told(ConditionType.READY, is_available, reason, message),
        told(ConditionType.RECONCILING, is_reconciling or stance.upkeep is not None, *upkeep),
        told(ConditionType.STALLED, stance.stall is not None, *stall),
    )

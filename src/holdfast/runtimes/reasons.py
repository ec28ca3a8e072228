"""Why a runtime is degraded, and what is said of it: one row a reason."""

from collections.abc import Mapping
from typing import Final

from holdfast.runtimes.status import ApplyCode

CONFLICT: Final = "Conflict"
APPLY_INVALID: Final = "ApplyInvalid"
APPLY_FAILED: Final = "ApplyFailed"
CRASH_LOOP: Final = "CrashLoop"
TIMEOUT: Final = "Timeout"
CHILD_MISSING: Final = "ChildMissing"
ORPHANED: Final = "Orphaned"
DELETION_STUCK: Final = "DeletionStuck"
OBSERVATION_FAILED: Final = "ObservationFailed"

MESSAGES: Final[Mapping[str, str]] = {
    CONFLICT: "Field manager ownership conflict applying {child}.",
    APPLY_INVALID: "Validation failed: {detail}.",
    APPLY_FAILED: "Apply failed: {detail}.",
    CRASH_LOOP: "Pod {pod} restart count={restarts}.",
    TIMEOUT: "Readiness not achieved within {span}.",
    CHILD_MISSING: "Expected {child} not found.",
    ORPHANED: "Found unmanaged {child}; cleanup scheduled.",
    DELETION_STUCK: "{count} children are left, {child} among them.",
    OBSERVATION_FAILED: "Listing {kind} failed: {detail}.",
}

APPLY_REASONS: Final[Mapping[ApplyCode, str]] = {
    ApplyCode.CONFLICT: CONFLICT,
    ApplyCode.INVALID: APPLY_INVALID,
    ApplyCode.FAILED: APPLY_FAILED,
}


def message_of(reason: str, **parts: object) -> str:
    """What is said of a reason. A sentence that was told with its own end gets no second one."""
    told = MESSAGES[reason].format_map(parts)
    return told[:-1] if told.endswith("..") else told

"""By which child a number of replicas is enforced, and what a failure to do so is called.

An autoscaler that is there gets a new minimum, because whatever is set behind its back it sets
again. A Knative service scales by itself above an annotation. Else the deployment is told.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from holdfast.runtimes.observed import Child, Known, ManagedKind, Observed, Unknown, listing_of
from holdfast.runtimes.status import ApplyCode

FIELD_MANAGER: Final = "oprc-crm-enforcer"
"""Who owns the fields that enforcement sets, so that a person's edit of others is left alone and
one of the same is seen as a conflict."""


class Path(Struct, frozen=True, gc=False):
    """A kind of child, and the field of it that is set."""

    kind: ManagedKind
    field: str


PATHS: Final = (
    Path(ManagedKind.HPA, "spec.minReplicas"),
    Path(
        ManagedKind.KNATIVE_SERVICE,
        "spec.template.metadata.annotations[autoscaling.knative.dev/minScale]",
    ),
    Path(ManagedKind.DEPLOYMENT, "spec.replicas"),
    Path(ManagedKind.ODGM_DEPLOYMENT, "spec.replicas"),
)
"""In order of preference; the first whose child is there."""


class Way(Struct, frozen=True, gc=False):
    """The path to take and the child at its end."""

    path: Path
    child: Child


class Ways:
    """Which path leads to the replicas of a function. Listings are gone through once a look,
    however many functions there are."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._found: dict[tuple[ManagedKind, ...], dict[str, Way]] = {}
        self._missed: dict[tuple[ManagedKind, ...], Unknown | None] = {}

    def of(self, kinds: tuple[ManagedKind, ...], function_key: str) -> Way | Unknown | None:
        """The first path whose child is there. Unknown: a preferred one may be there and was not
        seen. None: there is no child to tell."""
        found = self._found.get(kinds)
        if found is None:
            found = self._search(kinds)
        way = found.get(function_key)
        return way if way is not None else self._missed[kinds]

    def _search(self, kinds: tuple[ManagedKind, ...]) -> dict[str, Way]:
        found = self._found[kinds] = {}
        self._missed[kinds] = None
        for path in PATHS:
            if path.kind not in kinds:
                continue
            listing = listing_of(self._observed, path.kind)
            if not isinstance(listing, Known):
                self._missed[kinds] = listing
                break
            for child in listing.children:
                if not child.is_deleting:
                    found.setdefault(child.function_key, Way(path, child))
        return found


class Failure(Struct, frozen=True, gc=False):
    """A reason of a condition, and the pattern of its message."""

    reason: str
    pattern: str


FAILED: Final = Failure("EnforceFailed", "{}")
FALLBACK_FAILED: Final = Failure("EnforceFallbackFailed", "Fallback path failed: {}")
FAILURES: Final[Mapping[ApplyCode, Failure]] = {
    ApplyCode.CONFLICT: Failure(
        "EnforceConflict", "Field manager ownership conflict applying enforcement: {}"
    ),
    ApplyCode.INVALID: Failure("EnforceInvalid", "Invalid enforcement value {}"),
    ApplyCode.FAILED: FAILED,
}


def failure_of(code: ApplyCode, detail: str, *, was_fallback: bool = False) -> tuple[str, str]:
    """The reason and the message of an enforcement that went wrong. `was_fallback`: a preferred
    child had vanished, and telling the next one failed as well."""
    failure = FALLBACK_FAILED if was_fallback else FAILURES.get(code, FAILED)
    return failure.reason, failure.pattern.format(detail)

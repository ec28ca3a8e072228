"""A class runtime as it is stored: what was declared, what is known, and who still holds it."""

from typing import Final

from msgspec import Struct

from holdfast.core.ids import Instant
from holdfast.core.resource import Pairs
from holdfast.runtimes.spec import Spec
from holdfast.runtimes.status import NEW, Status

KIND: Final = "ClassRuntime"
API_VERSION: Final = "oaas.io/v1alpha1"

FINALIZER: Final = "oaas.io/runtime"
"""While it is there the resource stays, deleted or not: children may be left."""

OWNER_LABEL: Final = "oaas.io/owner"
FUNCTION_LABEL: Final = "oaas.io/function"
COMPONENT_LABEL: Final = "oaas.io/component"
REVISION_LABEL: Final = "oaas.io/revision"

FUNCTION: Final = "function"
ODGM: Final = "odgm"
"""The two components a workload may be."""


class Resource(Struct, frozen=True, kw_only=True):
    """`generation` counts changes of the spec, never of the status. `version` is the position of
    the last change of either: whoever writes names the one they read. `deleted_at` is None while
    nobody asked for the end."""

    name: str
    generation: int
    version: int
    created_at: Instant
    spec: Spec
    status: Status = NEW
    deleted_at: Instant | None = None
    finalizers: tuple[str, ...] = ()
    labels: Pairs = ()
    annotations: Pairs = ()


def is_held(resource: Resource) -> bool:
    """Whether our finalizer is on it."""
    return FINALIZER in resource.finalizers

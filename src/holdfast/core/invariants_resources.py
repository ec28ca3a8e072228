"""What must hold of declared resources."""

from collections.abc import Iterator

from holdfast.core.ids import NEVER
from holdfast.core.resource import (
    FINALIZERS_MAX,
    MARKS_BYTES_MAX,
    RESOURCES_MAX,
    SPEC_BYTES_MAX,
    STATUS_BYTES_MAX,
    marks_size,
    resource_id,
)
from holdfast.core.state import State
from holdfast.core.violation import Finding


def resources(state: State) -> Iterator[Finding]:
    """R1: a resource is found by its name, was changed at a position that has been, is within its
    bounds, and is there only as long as it is wanted or somebody has to clean up."""
    if len(state.resources) > RESOURCES_MAX:
        yield "resources", f"there are {len(state.resources)} of them"
    for key, resource in state.resources.items():
        called = resource_id(*key)
        if resource.key != key or resource.generation < 1:
            yield called, f"it says it is {resource.key}, generation {resource.generation}"
        if not 0 < resource.version <= state.position:
            yield called, f"it was changed at {resource.version} of {state.position} records"
        if max(resource.created_at, resource.deleted_at) > state.time:
            yield called, "it was made, or deleted, at a time that has not come"
        marks = marks_size(resource.labels, resource.annotations)
        sizes = (len(resource.spec), len(resource.status), len(resource.finalizers), marks)
        most = (SPEC_BYTES_MAX, STATUS_BYTES_MAX, FINALIZERS_MAX, MARKS_BYTES_MAX)
        if any(size > bound for size, bound in zip(sizes, most, strict=True)):
            yield called, f"it is larger than it may be: {sizes}"
        if resource.deleted_at != NEVER and not resource.finalizers:
            yield called, "it is deleted, nobody has to clean up, and it is still there"

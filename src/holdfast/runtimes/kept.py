"""A class runtime as the core keeps it, read: bytes become a spec and a status."""

from holdfast.core.ids import NEVER
from holdfast.core.resource import Resource as Kept
from holdfast.runtimes.documents import decode_status
from holdfast.runtimes.manifest import decode_stored
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.spec import Spec
from holdfast.runtimes.status import Status


def read_resource(
    kept: Kept, *, spec: Spec | None = None, status: Status | None = None
) -> Resource:
    """What is kept, as everything in this room takes it. Whoever has read the same bytes before
    brings what was in them."""
    return Resource(
        name=kept.name,
        generation=kept.generation,
        version=kept.version,
        created_at=kept.created_at,
        spec=decode_stored(kept.spec) if spec is None else spec,
        status=decode_status(kept.status) if status is None else status,
        deleted_at=None if kept.deleted_at == NEVER else kept.deleted_at,
        finalizers=kept.finalizers,
        labels=kept.labels,
        annotations=kept.annotations,
    )

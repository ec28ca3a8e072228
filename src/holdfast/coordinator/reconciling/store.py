"""Class runtimes as resources of the coordinator: the store that the loop reads and writes."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.lines import say
from holdfast.coordinator.reconciling.tending import done
from holdfast.core import commands as c
from holdfast.core import commands_resources as r
from holdfast.core.decision import Refused
from holdfast.core.ids import NEVER, Instant, Position
from holdfast.core.resource import Resource as Stored
from holdfast.core.unreadable import UNREADABLE
from holdfast.runtimes.actions import EmitEvent
from holdfast.runtimes.documents import decode_status, encode_status
from holdfast.runtimes.happenings import Happenings
from holdfast.runtimes.manifest import decode_stored
from holdfast.runtimes.resource import KIND, Resource
from holdfast.runtimes.spec import Spec
from holdfast.runtimes.status import Status


class Read(Struct, frozen=True):
    """A runtime as it was read, and what it was read from."""

    spec: bytes
    status: bytes
    resource: Resource


class LocalStore:
    """What was read once is not read again while it is the same bytes."""

    def __init__(self, coordinator: Coordinator, happenings: Happenings) -> None:
        self.happenings = happenings
        self._coordinator = coordinator
        self._read: dict[str, Read] = {}

    def names(self) -> Iterable[str]:
        return [name for kind, name in self._coordinator.state.resources if kind == KIND]

    def read(self, name: str) -> Resource | None:
        stored = self._coordinator.state.resources.get((KIND, name))
        if stored is None:
            self._read.pop(name, None)
            self.happenings.forget(name)
            return None
        known = self._read.get(name)
        if known is not None and known.resource.version == stored.version:
            return known.resource
        try:
            resource = self._decoded(stored, known)
        except UNREADABLE as error:
            # Written by a version that knows more than this one: it is left as it is.
            say("runtime_unreadable", runtime=name, why=str(error))
            return None
        self._read[name] = Read(stored.spec, stored.status, resource)
        return resource

    def put_status(
        self, name: str, status: Status, expects: int, told: Callable[[bool], None]
    ) -> None:
        content = encode_status(status)
        told(
            self._did(
                r.PutResourceStatus(
                    kind=KIND, name=name, status=content, expects=Position(expects)
                )
            )
        )

    def set_finalizers(
        self, name: str, finalizers: tuple[str, ...], expects: int, told: Callable[[bool], None]
    ) -> None:
        told(
            self._did(
                r.SetResourceFinalizers(
                    kind=KIND, name=name, finalizers=finalizers, expects=Position(expects)
                )
            )
        )

    def emit(self, name: str, event: EmitEvent, now: Instant) -> None:
        self.happenings.tell(name, event, now)

    def _did(self, command: c.Command) -> bool:
        return not isinstance(done(self._coordinator, command), Refused)

    def _decoded(self, stored: Stored, known: Read | None) -> Resource:
        is_same_spec = known is not None and known.spec == stored.spec
        is_same_status = known is not None and known.status == stored.status
        spec: Spec = known.resource.spec if known and is_same_spec else decode_stored(stored.spec)
        status = (
            known.resource.status if known and is_same_status else decode_status(stored.status)
        )
        return Resource(
            name=stored.name,
            generation=stored.generation,
            version=stored.version,
            created_at=stored.created_at,
            spec=spec,
            status=status,
            deleted_at=None if stored.deleted_at == NEVER else stored.deleted_at,
            finalizers=stored.finalizers,
        )

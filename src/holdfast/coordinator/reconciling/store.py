"""Class runtimes as resources of the coordinator: the store that the loop reads and writes."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.lines import say
from holdfast.coordinator.reconciling.tending import done
from holdfast.core import commands as c
from holdfast.core import commands_resources as r
from holdfast.core.decision import Refused
from holdfast.core.ids import Instant, Position
from holdfast.core.resource import Resource as Stored
from holdfast.core.unreadable import UNREADABLE
from holdfast.runtimes.actions import EmitEvent
from holdfast.runtimes.documents import encode_status
from holdfast.runtimes.happenings import Happenings
from holdfast.runtimes.kept import read_resource
from holdfast.runtimes.resource import KIND, Resource
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
            resource = _decoded(stored, known)
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


def _decoded(stored: Stored, known: Read | None) -> Resource:
    if known is None:
        return read_resource(stored)
    return read_resource(
        stored,
        spec=known.resource.spec if known.spec == stored.spec else None,
        status=known.resource.status if known.status == stored.status else None,
    )

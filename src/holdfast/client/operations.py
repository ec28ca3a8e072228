"""What is done to many jobs or tasks by one request, as a program asks for it."""

from typing import Final

from msgspec import Struct

from holdfast.client.remote_desk import RemoteDesk
from holdfast.wire.operations import NewOperation, Preview, Undo

OPERATIONS: Final = "/operations"
WAIT: Final = "30s"
RUNNING: Final = "RUNNING"


class RefusedOne(Struct, frozen=True):
    id: str
    why: str


class Operation(Struct, frozen=True, kw_only=True):
    """One request about many. `outcomes` counts the `jobs` and `tasks` it changed, and those it did
    not by why: `unchanged`, `refused`; of an undo `started`, `moved_on`, `gone`, `final`. `state`
    is RUNNING, DONE or INTERRUPTED."""

    id: str
    verb: str
    state: str
    total: int
    outcomes: dict[str, int]
    refusals: list[RefusedOne]
    reason: str | None
    asked_by: str
    at: str
    undoes: str | None
    undone_by: str | None
    can_undo: bool


class Listed(Struct):
    operations: list[Operation]


class RemoteOperations(RemoteDesk):
    """Those of a server."""

    def preview(self, body: NewOperation) -> Preview:
        told: Preview = self._post(OPERATIONS, body, Preview)
        return told

    def perform(self, body: NewOperation) -> Operation:
        return self._awaited(self._post(OPERATIONS, body, Operation))

    def undo(self, name: str, body: Undo) -> Operation:
        return self._awaited(self._post(f"{OPERATIONS}/{name}/undo", body, Operation))

    def all(self) -> list[Operation]:
        path = f"/api/v1{OPERATIONS}"
        told: Listed = self._asked(lambda: self._http.get(path, Listed))
        return told.operations

    def show(self, name: str, wait: str = "") -> Operation:
        path = f"/api/v1{OPERATIONS}/{name}"
        told: Operation = self._asked(lambda: self._http.get(path, Operation, wait=wait))
        return told

    def _awaited(self, told: Operation) -> Operation:
        while told.state == RUNNING:
            told = self.show(told.id, WAIT)
        return told

"""What is done to many jobs or tasks of the coordinator in this program."""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import convert

from holdfast.client.errors import Refused
from holdfast.client.operations import Operation
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.embedding import Embedded
from holdfast.coordinator.operation_views import operation_view
from holdfast.coordinator.operations import Run, follow, plan_of, preview_of
from holdfast.coordinator.selecting import Unclear
from holdfast.core import commands_operations as o
from holdfast.core.decision import Refused as RefusedDecision
from holdfast.core.operation import UNDO
from holdfast.core.operation import Operation as Known
from holdfast.wire.operations import NewOperation, Preview, Undo


class LocalOperations:
    """`ask` runs a question on the coordinator's thread; reading is done on the caller's."""

    def __init__(
        self, ask: Callable[[Callable[[Coordinator], Any]], Any], embedded: Embedded, actor: str
    ) -> None:
        self._ask = ask
        self._embedded = embedded
        self._actor = actor

    def preview(self, body: NewOperation) -> Preview:
        portions: list[Iterator[Preview | None]] = []

        def some(k: Coordinator) -> Preview | None:
            if not portions:
                portions.append(preview_of(k, body))
            return next(portions[0])

        found: Preview | None = None
        while found is None:
            try:
                found = self._ask(some)
            except Unclear as error:
                raise Refused(error.code, str(error)) from None
        return found

    def perform(self, body: NewOperation) -> Operation:
        found = self.preview(body)
        request = msgspec.json.encode(body)
        total = found.jobs if body.verb.endswith("jobs") else found.tasks
        return self._carried_out(
            o.BeginOperation(
                verb=body.verb, request=request, digest=blake2b(request, digest_size=16).digest(),
                asked_by=self._actor, reason=body.reason, total=total,
            )
        )  # fmt: skip

    def undo(self, name: str, body: Undo) -> Operation:
        known = self._known(name)
        return self._carried_out(
            o.BeginOperation(
                verb=UNDO, request=b"{}", digest=name.encode(), asked_by=self._actor,
                reason=body.reason, total=known.total, undoes=name,
            )
        )  # fmt: skip

    def all(self) -> list[Operation]:
        def look(k: Coordinator) -> list[Operation]:
            return [_told(k, known) for known in reversed(k.state.operations.values())]

        found: list[Operation] = self._ask(look)
        return found

    def show(self, name: str, wait: str = "") -> Operation:
        found: Operation = self._ask(lambda k: _told(k, self._find(k, name)))
        return found

    def _carried_out(self, command: o.BeginOperation) -> Operation:
        decision = self._ask(
            lambda k: k.execute(command, actor=self._actor, reason=command.reason)
        )
        if isinstance(decision, RefusedDecision):
            raise Refused(decision.code, decision.message)
        name = str(decision.answer)
        run = Run(name, self._actor, command.reason)
        library = self._embedded.library()
        plan = plan_of(run, self._known(name), self._embedded.coordinator, library)
        follow(plan, self._ask)
        told: Operation = self._ask(lambda k: _told(k, self._find(k, name), run))
        return told

    def _known(self, name: str) -> Known:
        found: Known = self._ask(lambda k: self._find(k, name))
        return found

    def _find(self, k: Coordinator, name: str) -> Known:
        known = k.state.operations.get(name)
        if known is None:
            raise Refused("not_found", f"there is no operation {name}, or not any more")
        return known


def _told(k: Coordinator, known: Known, run: Run | None = None) -> Operation:
    offset_ms = k.clock.wall() - k.clock.now()
    refusals = () if run is None else tuple(run.refusals)
    view = operation_view(known, lambda at: at + offset_ms, refusals=refusals)
    return convert(view, Operation)

"""What a program asks to be done to many jobs or tasks at once, and taken back."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypedDict, Unpack

from holdfast.client.backend import Backend
from holdfast.client.operations import Operation
from holdfast.client.ties import JobNamed, job_id_of
from holdfast.core.operation import UNDO, VERBS
from holdfast.wire.amounts import Duration, duration_ms, text, wall_ms
from holdfast.wire.operations import NewOperation, Preview, Selection, Undo


class Choice(TypedDict, total=False):
    """What narrows a choice: the state of jobs, or of tasks where the verb is about those; a name
    with * and ?, labels, namespace, queue, user, and how long ago it was submitted at least."""

    state: str
    name: str
    labels: Mapping[str, str]
    namespace: str
    queue: str
    user: str
    older_than: Duration


class Bulk:
    """A part of `Holdfast`: one request about many."""

    _backend: Backend

    def perform(
        self,
        verb: str,
        *names: JobNamed,
        delay: Duration | None = None,
        not_before: datetime | None = None,
        reason: str = "",
        **choice: Unpack[Choice],
    ) -> Operation:
        """Do something to many at once: `cancel_jobs`, `retry_jobs`, `cancel_tasks`, `retry_tasks`,
        `reschedule_tasks` or `purge_tasks`. Named are jobs, `"all"`, `"1-10"`, or tasks such as
        `"12/3-7"`; `choice` narrows. It returns when all of it was tried; `undo` takes it back."""
        body = _body(verb, names, choice)
        body.reason = text(reason, "reason")
        body.delay = f"{duration_ms(delay, 'delay')}ms" if delay is not None else ""
        if not_before is not None and wall_ms(not_before, "not_before"):
            body.not_before = not_before.isoformat(timespec="milliseconds")
        return self._backend.operations.perform(body)

    def preview(self, verb: str, *names: JobNamed, **choice: Unpack[Choice]) -> Preview:
        """To how many jobs and tasks `perform` would do it, and some of them. Nothing is done."""
        body = _body(verb, names, choice)
        body.dry_run, body.reason = True, "preview"
        return self._backend.operations.preview(body)

    def undo(self, operation: str | Operation, reason: str = "") -> Operation:
        """Take back what an operation did, as far as nothing has begun since; `outcomes` says how
        far that was and why not further."""
        name = operation if isinstance(operation, str) else operation.id
        return self._backend.operations.undo(name, Undo(reason=text(reason, "reason")))

    def operations(self) -> list[Operation]:
        """What was done to many at once, newest first."""
        return self._backend.operations.all()

    def operation(self, name: str) -> Operation:
        return self._backend.operations.show(text(name, "name"))


def _body(verb: str, names: tuple[JobNamed, ...], choice: Choice) -> NewOperation:
    if verb == UNDO or verb not in VERBS:
        known = ", ".join(each for each in VERBS if each != UNDO)
        raise ValueError(f"verb={verb!r} is none of {known}")
    older = choice.get("older_than")
    selection = Selection(
        names=[name if isinstance(name, str) else job_id_of(name) for name in names],
        states=[part.strip().upper() for part in choice.get("state", "").split(",") if part],
        name=choice.get("name", ""),
        labels=dict(choice.get("labels", {})),
        namespace=choice.get("namespace", ""),
        queue=choice.get("queue", ""),
        user=choice.get("user", ""),
        older_than="" if older is None else f"{duration_ms(older, 'older_than')}ms",
    )
    return NewOperation(verb=verb, selection=selection)

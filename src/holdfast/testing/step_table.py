"""The steps between prepare and DONE: who takes each, and where it is in the code."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from holdfast.core import commands as c
from holdfast.core.owed import FILE

TASK, COURIER, AGENT, COORDINATOR = "task", "courier", "agent", "coordinator"
"""Whose step it is: the user's task, whoever delivers, whoever exchanges, whoever decides."""

When = Callable[[tuple[Any, ...], Any], bool]
"""Whether a call is the one that is meant, by its arguments and, after it, its result."""


class Step(Struct, frozen=True):
    """`place` is `module:name`, and `side` on which side of that; a step without a place names
    itself. `kind`: of which tasks, or of which sink. `apart`: only where tasks and deliveries have
    processes of their own."""

    name: str
    by: str
    place: str = ""
    side: str = "after"
    kind: str = ""
    when: When | None = None
    apart: bool = False


def _sends(field: str) -> When:
    return lambda args, sent: sent is not None and bool(getattr(sent, field))


def _says(place: int, field: str) -> When:
    return lambda args, _: bool(getattr(args[place], field))


def _does(command: type[Any]) -> When:
    return lambda args, _: isinstance(args[1], command)


def _writes(event: bytes) -> When:
    return lambda args, _: any(event in record for record in args[1])


def _made_durable(event: bytes) -> When:
    def is_meant(args: tuple[Any, ...], _: Any) -> bool:
        flying = args[0]._flying
        return flying is not None and any(event in record for record in flying.records)

    return is_meant


def _tells(sink: str) -> When:
    return lambda args, _: bool(args[1]) and args[0]._place[1] == sink


def _tells_of_a_file(args: tuple[Any, ...], _: Any) -> bool:
    return bool(args[1]) and args[0]._place[0] == FILE


def _answers_a_commit(args: tuple[Any, ...], _: Any) -> bool:
    sent = args[0]._under_way
    return sent is not None and bool(sent.done) and args[1].number == sent.number


def _answers_a_task(args: tuple[Any, ...], _: Any) -> bool:
    return any(done.lease_id in args[0]._asking for done in args[1].done)


_CHILD: Final = "holdfast.worker.child"
_CONTEXT: Final = "holdfast.worker.context:Context"
_STAGING: Final = "holdfast.worker.staging"
_AGENT: Final = "holdfast.worker.agent:Agent"
_PARCELS: Final = "holdfast.worker.parcels:Parcels"
_SAY: Final = "holdfast.worker.courier:Courier._say"
_POSTGRES: Final = "holdfast.worker.sinks.postgres:PostgresOutlet"
_HTTP: Final = "holdfast.worker.sinks.http"
_TAKE: Final = "holdfast.coordinator.exchanges:Exchanges.take"
_EXECUTE: Final = "holdfast.coordinator.coordinator:Coordinator.execute"
_DURABLE: Final = "holdfast.coordinator.coordinator:Coordinator.became_durable"
_APPEND: Final = "holdfast.wal.file:FileLog.append"
_COMMITTED, _DELIVERED = b"TaskCommitted", b"EffectsDelivered"

STEPS: Final[tuple[Step, ...]] = (
    # Prepare: the body.
    Step("the file to be staged is noted", TASK, "holdfast.worker.leftovers:Journal.note"),
    Step("the staged file is written", TASK, f"{_STAGING}:_settle", "before"),
    Step("the staged file is synced", TASK, f"{_STAGING}:_settle"),
    Step("the folder of the staged file is synced", TASK, f"{_STAGING}:sync_folder"),
    Step("an effect is promised", TASK, f"{_CONTEXT}.effect"),
    Step("the task has its result", TASK, f"{_CONTEXT}.finish", "before", kind="plain"),
    Step("all that is promised is gathered", TASK, f"{_CONTEXT}.finish", kind="plain"),
    Step("the outcome is on the slate", TASK, f"{_CHILD}:Child._keep", kind="plain", apart=True),
    Step("the outcome is about to be sent", TASK, f"{_CHILD}:array_of", kind="plain", apart=True),
    # The commit on its way.
    Step("the commit is about to be sent", AGENT, f"{_AGENT}.step", when=_sends("done")),
    Step("the commit is received", COORDINATOR, _TAKE, "before", when=_says(1, "done")),
    Step("the commit is decided", COORDINATOR, _EXECUTE, when=_does(c.CommitTasks)),
    Step("the commit is appended", COORDINATOR, _APPEND, when=_writes(_COMMITTED)),
    Step("the commit is durable", COORDINATOR, _DURABLE, "before", when=_made_durable(_COMMITTED)),
    Step("the answer to the commit is received", AGENT, f"{_AGENT}.receive", "before",
         when=_answers_a_commit),
    Step("the answer to the commit is taken in", AGENT, f"{_PARCELS}.answered",
         when=_says(1, "done")),
    # Committing early.
    Step("the early commit is asked for", TASK, f"{_CONTEXT}.enter", "before", kind="early"),
    Step("the verdict is to be passed on", AGENT, "holdfast.worker.early:EarlyCommits.heard",
         "before", kind="early", when=_answers_a_task),
    Step("the early commit is answered", TASK, f"{_CONTEXT}.enter", kind="early"),
    Step("in the block", TASK, kind="early"),
    Step("the block is over", TASK, f"{_CONTEXT}.leave", "before", kind="early"),
    Step("the end of the block is told", TASK, f"{_CONTEXT}.leave", kind="early"),
    Step("the end of the block is heard", AGENT, "holdfast.worker.early:EarlyCommits._settle",
         kind="early"),
    # The parcel on its way.
    Step("the parcel is dealt", COORDINATOR, "holdfast.coordinator.deliveries:Deliveries.deal",
         when=lambda args, dealt: bool(dealt)),
    Step("the parcel is to be sent", COORDINATOR, "holdfast.coordinator.exchanges:Exchanges._reply",
         "before", when=_says(1, "parcels")),
    Step("the parcel is received", AGENT, f"{_PARCELS}.take_up", "before",
         when=lambda args, _: bool(args[1])),
    Step("the parcel is passed on", AGENT, f"{_PARCELS}.take_up",
         when=lambda args, _: bool(args[1])),
    Step("the parcel is begun", COURIER, "holdfast.worker.courier:Courier._deliver", "before"),
    # Each kind of delivery. Files and placing name their steps themselves.
    Step("the ledger is looked at", COURIER, kind="ledger"),
    Step("the line is written", COURIER, kind="ledger"),
    Step("the line is synced", COURIER, kind="ledger"),
    Step("the line is not told yet", COURIER, _SAY, "before", "ledger", _tells("ledger")),
    Step("the line is told", COURIER, _SAY, "after", "ledger", lambda args, _: (
        args[0]._place[1] == "ledger")),
    Step("the key is inserted", COURIER, f"{_POSTGRES}._claim", kind="books"),
    Step("the statement is run", COURIER, f"{_POSTGRES}._run", kind="books"),
    Step("the row is committed", COURIER, f"{_POSTGRES}._do", kind="books"),
    Step("the row is not told yet", COURIER, _SAY, "before", "books", _tells("books")),
    Step("the request is posted", COURIER, f"{_HTTP}:_Line._hear", "before", "hook"),
    Step("the request is answered", COURIER, f"{_HTTP}:HttpOutlet._asked", kind="hook"),
    Step("the answer is not told yet", COURIER, _SAY, "before", "hook", _tells("hook")),
    Step("the function is called", COURIER, kind="call"),
    Step("the function has returned", COURIER, "holdfast.worker.sinks.function:call", kind="call"),
    Step("the call is not told yet", COURIER, _SAY, "before", "call", _tells("call")),
    Step("the receipt is made", COURIER, kind="file"),
    Step("the new file is linked", COURIER, kind="file"),
    Step("the file is renamed", COURIER, kind="file"),
    Step("the rename is synced", COURIER, kind="file"),
    Step("the rename is not told yet", COURIER, _SAY, "before", "file", _tells_of_a_file),
    # The confirmation on its way.
    Step("what was delivered is heard", AGENT, f"{_PARCELS}.gather",
         when=lambda args, _: bool(args[0]._delivered)),
    Step("the confirmation is about to be sent", AGENT, f"{_AGENT}.step", when=_sends("delivered")),
    Step("the confirmation is received", COORDINATOR, _TAKE, "before",
         when=_says(1, "delivered")),
    Step("the confirmation is decided", COORDINATOR, _EXECUTE, when=_does(c.ConfirmDeliveries)),
    Step("the confirmation is appended", COORDINATOR, _APPEND, when=_writes(_DELIVERED)),
    Step("the confirmation is durable", COORDINATOR, _DURABLE, "before",
         when=_made_durable(_DELIVERED)),
    Step("the confirmation is answered", AGENT, f"{_PARCELS}.answered", "before",
         when=_says(1, "delivered")),
    Step("the receipts are to go", AGENT, "holdfast.worker.parcels:forget_receipts", "before",
         "file"),
    Step("the receipts are gone", AGENT, "holdfast.worker.parcels:forget_receipts", "after",
         "file"),
)  # fmt: skip

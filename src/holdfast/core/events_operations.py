"""Facts about operations: requests that are carried out in many records, and can be undone."""

from holdfast.core.event import Event
from holdfast.core.events_work import Span
from holdfast.core.ids import JobId


class OperationBegun(Event, frozen=True, kw_only=True):
    """Somebody asked for something to be done to `total` jobs or tasks. `request` is what was
    asked for, word for word, and `key` with `digest` is how a repeat of it is known."""

    operation_id: str
    verb: str
    request: bytes
    digest: bytes
    key: str
    asked_by: str
    reason: str
    total: int
    undoes: str


class OperationEnded(Event, frozen=True, kw_only=True):
    """All of it was tried: so many of each outcome."""

    operation_id: str
    outcomes: tuple[tuple[str, int], ...]


class TasksRestored(Event, frozen=True, kw_only=True):
    """Tasks that a person had stopped before they began wait again, in a new generation. Nothing
    of what they run with was kept, so it is told again: an item for each, or what they share."""

    job_id: JobId
    generation: int
    spans: tuple[Span, ...]
    items: tuple[bytes, ...]
    shared: bytes

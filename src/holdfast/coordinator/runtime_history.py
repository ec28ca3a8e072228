"""What a log says of the life of a class runtime: declared, its phases and why, until it went.

A server notes more than this while it runs, and forgets it when it stops; this is what stays.
"""

from collections.abc import Iterable, Iterator

from holdfast.coordinator.inspect import Told
from holdfast.coordinator.runtimes import NORMAL, WARNING
from holdfast.coordinator.views import View, rfc3339
from holdfast.core import events as e
from holdfast.runtimes.conditions import REASONS
from holdfast.runtimes.documents import decode_status
from holdfast.runtimes.resource import KIND
from holdfast.runtimes.status import ConditionType, Phase, Status, condition_of

TELLING = {
    Phase.DEGRADED: ConditionType.DEGRADED,
    Phase.AVAILABLE: ConditionType.AVAILABLE,
}
"""Which condition says why a phase was reached; of the others it is that it progresses."""


def life_of(name: str, history: Iterable[Told]) -> list[View]:
    """What happened to one runtime, as events: the latest last."""
    found: list[View] = []
    phase: Phase | None = None
    for told in history:
        for event in told.record.events:
            if getattr(event, "kind", None) != KIND or getattr(event, "name", None) != name:
                continue
            at = rfc3339(told.wall(told.record.at))
            if isinstance(event, e.ResourceStatusPut):
                status = decode_status(event.status)
                if status.phase is not phase:
                    phase = status.phase
                    found.append(_view(at, *_reached(status), is_warning=phase is Phase.DEGRADED))
            else:
                found += [_view(at, *each) for each in _said(event, told.record.actor)]
    return found


def _reached(status: Status) -> tuple[str, str]:
    kind = TELLING.get(status.phase, ConditionType.PROGRESSING)
    found = condition_of(status, kind)
    if found is not None and found.is_true:
        return found.reason, found.message
    return REASONS[status.phase], ""


def _said(event: object, actor: str) -> Iterator[tuple[str, str]]:
    by = f" by {actor}" if actor else ""
    if isinstance(event, e.ResourcePut):
        yield "Declared", f"Generation {event.generation} is declared{by}."
    elif isinstance(event, e.ResourceLabelled):
        yield "Labelled", f"Its labels or annotations were changed{by}."
    elif isinstance(event, e.ResourceDeletionMarked):
        yield "Deleting", f"It shall go, asked for{by}."
    elif isinstance(event, e.ResourceRemoved):
        yield "Deleted", "Nothing of it is left."


def _view(at: str, reason: str, message: str, *, is_warning: bool = False) -> View:
    kind = WARNING if is_warning else NORMAL
    return {
        "type": kind, "reason": reason, "message": message, "count": 1, "first_at": at,
        "last_at": at,
    }  # fmt: skip

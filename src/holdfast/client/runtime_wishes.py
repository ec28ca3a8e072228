"""What can be waited for of a class runtime, judged from its document."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from holdfast.runtimes.status import ConditionType, Phase

Document = dict[str, Any]
"""A runtime as it is shown: metadata, spec and status."""


class Wish(Struct, frozen=True):
    """What is waited for. `is_met` is asked of a runtime that is there; `is_end`: that it is not
    there any more; `lasts`: it can still come while the runtime is taken down."""

    text: str
    is_met: Callable[[Document], bool]
    is_end: bool = False
    lasts: bool = False


def condition(runtime: Document, kind: str) -> Document | None:
    found: list[Document] = runtime["status"]["conditions"]
    return next((each for each in found if each["type"] == kind), None)


def is_seen(runtime: Document) -> bool:
    """Whether its status is about what was declared last, and not about what was before."""
    return bool(runtime["status"]["observedGeneration"] == runtime["metadata"]["generation"])


def is_up(runtime: Document) -> bool:
    """Available, and as it was declared last."""
    return is_seen(runtime) and bool(runtime["status"]["phase"] == Phase.AVAILABLE)


AVAILABLE: Final = Wish("phase=available", is_up)
DELETED: Final = Wish("deleted", lambda runtime: False, is_end=True, lasts=True)


def wish_of(text: str) -> Wish:
    """`phase=available`, `condition=Ready`, `condition=Ready=False` or `deleted`; a ValueError
    says what else could be meant."""
    what, _, rest = text.partition("=")
    if text == DELETED.text:
        return DELETED
    if text == AVAILABLE.text:
        return AVAILABLE
    if what == "phase" and rest in set(Phase):
        lasts = rest == Phase.DELETING
        return Wish(text, lambda runtime: bool(runtime["status"]["phase"] == rest), lasts=lasts)
    kind, _, status = rest.partition("=")
    known = {each.lower(): each for each in ConditionType}
    wanted = (status or "True").capitalize()
    if what == "condition" and kind.lower() in known and wanted in ("True", "False"):
        named = known[kind.lower()]
        return Wish(text, lambda runtime: _holds(runtime, named, wanted))
    raise ValueError(
        f"{text!r} is nothing to wait for: write phase=PHASE ({', '.join(Phase)}), "
        f"condition=TYPE or condition=TYPE=False ({', '.join(ConditionType)}), or deleted"
    )


def _holds(runtime: Document, kind: str, status: str) -> bool:
    found = condition(runtime, kind)
    return is_seen(runtime) and found is not None and found["status"] == status

"""What was told about runtimes of late: for people who ask what has happened, and safe to lose.

The same told again is the same happening, once more. Of each runtime the latest are kept.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.actions import EmitEvent

KEPT: Final = 100
"""So many different ones are kept of each runtime."""


class Happening(Struct, frozen=True, kw_only=True, gc=False):
    """Something that was told, how often, and from when to when."""

    reason: str
    message: str
    is_warning: bool
    count: int
    first_at: Instant
    last_at: Instant


class Happenings:
    def __init__(self) -> None:
        self._of: dict[str, dict[tuple[str, str], Happening]] = {}

    def tell(self, name: str, event: EmitEvent, now: Instant) -> None:
        kept = self._of.setdefault(name, {})
        key = (event.reason, event.message)
        known = kept.pop(key, None)
        if known is not None:
            # It moves to the end: what was told last is last.
            kept[key] = replace(known, count=known.count + 1, last_at=now)
            return
        if len(kept) >= KEPT:
            del kept[next(iter(kept))]
        kept[key] = Happening(
            reason=event.reason,
            message=event.message,
            is_warning=event.is_warning,
            count=1,
            first_at=now,
            last_at=now,
        )

    def of(self, name: str) -> tuple[Happening, ...]:
        """Those of one runtime, the latest last."""
        return tuple(self._of.get(name, {}).values())

    def forget(self, name: str) -> None:
        self._of.pop(name, None)

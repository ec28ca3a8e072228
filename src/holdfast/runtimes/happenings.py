"""What was told about runtimes of late, for people who ask what has happened. Safe to lose: what
matters of it follows from the log.

The same told again is the same happening, once more. Of each runtime the latest are kept.
"""

from collections.abc import Iterable
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

    def names(self) -> tuple[str, ...]:
        return tuple(self._of)

    def precede(self, name: str, earlier: Iterable[Happening], shift: int = 0) -> None:
        """These came before everything that is known of a runtime; their times are moved by
        `shift`."""
        later = self._of.pop(name, {})
        found: dict[tuple[str, str], Happening] = {}
        for each in earlier:
            first_at, last_at = Instant(each.first_at + shift), Instant(each.last_at + shift)
            found[each.reason, each.message] = replace(each, first_at=first_at, last_at=last_at)
        for key, each in later.items():
            known = found.pop(key, None)
            if known is not None:
                count = known.count + each.count
                each = replace(each, count=count, first_at=known.first_at)
            found[key] = each
        self._of[name] = dict(list(found.items())[-KEPT:])

    def forget(self, name: str) -> None:
        self._of.pop(name, None)

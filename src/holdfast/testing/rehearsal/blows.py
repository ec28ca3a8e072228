"""Blows: what is to happen to a worker or to the coordinator, and at which moment.

| moment   | where everybody stands                                                    |
|----------|---------------------------------------------------------------------------|
| `start`  | the task is leased, and its body has not begun                            |
| `body`   | the body sleeps or speaks for the first time, or has just ended; nobody   |
|          | has heard of a result                                                     |
| `commit` | the commit is on the disk, and whoever asked for it has not been told     |
| `block`  | `with ctx.commit():` is about to be left, and nobody knows that it was    |
| `effect` | a sink has an effect, and nobody knows that it does                       |

Any other word is the name of a task, in its body, or a note that a task gave with `progress`.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from holdfast.core.spec import JobSpec
from holdfast.worker.functions import CannotName, plain, reference

START, BODY, COMMIT, BLOCK, EFFECT = "start", "body", "commit", "block", "effect"
MOMENTS: Final = (START, BODY, COMMIT, BLOCK, EFFECT)

During = str | Callable[..., Any]
"""A moment, the name of a task, a note, or the function of a task."""


class Point(Struct, frozen=True):
    """Where a task has come to: a moment, or a note of its own."""

    moment: str
    spec: JobSpec
    note: str = ""


class Struck(Exception):
    """Whoever came to this point does not go on from here: it was killed, or frozen."""


class Blow:
    """One that waits for its moment. `has_happened` once it has; it happens once."""

    def __init__(
        self, what: str, during: During, of: During | None, strike: Callable[[], None]
    ) -> None:
        self.has_happened = False
        self._what = what
        self._during = during
        self._of = of
        self._strike = strike

    def meets(self, point: Point) -> bool:
        """Whether this is the moment, for a task that is meant."""
        if self._of is not None and not is_of(point.spec, self._of):
            return False
        if self._during in MOMENTS:
            return point.moment == self._during
        if isinstance(self._during, str) and point.note:
            return point.note == self._during
        return point.moment == BODY and is_of(point.spec, self._during)

    def fall(self) -> None:
        self.has_happened = True
        self._strike()

    def __repr__(self) -> str:
        return f"{self._what}(during={_shown(self._during)})"


def is_of(spec: JobSpec, task: During) -> bool:
    """Whether a job runs this function, or has this name."""
    if isinstance(task, str):
        return task in (spec.name, spec.target.rpartition(":")[2])
    try:
        return spec.target == reference(task)
    except CannotName:
        return spec.name == getattr(plain(task), "__name__", "")


def _shown(during: During) -> str:
    return repr(during) if isinstance(during, str) else str(getattr(plain(during), "__name__", ""))

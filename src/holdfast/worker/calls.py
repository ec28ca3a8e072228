"""The functions a lane has made ready to call.

Finding a function and reading its annotations is work for once, not for every task. A lane keeps
what it has prepared, with the event loop its coroutine functions need.
"""

from typing import Final

from holdfast.wire.exchange import Item
from holdfast.worker.functions import MissingGuard
from holdfast.worker.loops import LaneLoop
from holdfast.worker.payloads import Bound, bind

KEPT_MAX: Final = 256


class Calls:
    """Prepared calls of one thread."""

    def __init__(self) -> None:
        self._loop = LaneLoop()
        self._known: dict[tuple[str, str], Bound] = {}

    def prepare(self, kind: str, target: str) -> Bound:
        """The call for this target. One that cannot be prepared fails when it is called.

        So a run pays for a broken import once, and each of its tasks still fails by itself.
        `MissingGuard` is raised at once: it says that nothing at all can run here.
        """
        known = self._known.get((kind, target))
        if known is not None:
            return known
        try:
            call = bind(kind, target, self._loop.complete)
        except MissingGuard:
            raise
        except BaseException as error:  # noqa: BLE001 - loading user code may raise anything
            return raising(error)
        if len(self._known) >= KEPT_MAX:
            self._known.clear()
        self._known[kind, target] = call
        return call

    def close(self) -> None:
        self._loop.close()


def raising(error: BaseException) -> Bound:
    """A call that fails with what kept it from being prepared."""
    origin = error.__traceback__

    def call(item: Item) -> bytes:
        raise error.with_traceback(origin)

    return call

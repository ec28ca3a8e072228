"""How tasks ended, fetched from a server: in batches, one ahead of the reader, bounded."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from holdfast.client.backend import Decode
from holdfast.client.errors import OperatingError, TaskFailed
from holdfast.client.feed import JobFeed
from holdfast.core.ids import task_name
from holdfast.core.task import TaskState
from holdfast.wire.bodies import Outcome
from holdfast.wire.contents import new_digest
from holdfast.wire.errors import ResultLost

FIRST_BATCH: Final = 32
GROWTH: Final = 4
LARGEST_BATCH: Final = 1_000
BATCH_BYTES: Final = 4 * 1024 * 1024
"""A batch is cut so that it takes about as much, judged by the one before it."""

Fetch = Callable[[Sequence[int]], list[Outcome]]
Read = Callable[[int], bytes]
"""The bytes of the large result of a task."""

SCRIPT_HINT: Final = (
    "The function belongs to the script that submitted it, which this worker cannot read at that "
    "path. Put it in a module that is installed where workers run."
)


class Batch:
    """Outcomes that were asked for, on a thread of their own, and where each was told to be."""

    def __init__(self, fetch: Fetch, wanted: dict[int, int]) -> None:
        self._fetch = fetch
        self._wanted = wanted
        self._found: dict[int, tuple[int, Outcome]] = {}
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="holdfast-fetch", daemon=True)
        self._thread.start()

    def found(self) -> dict[int, tuple[int, Outcome]]:
        """By index: the position that was asked for, and what came."""
        if self._thread is None:
            self._run()
        else:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found

    def _run(self) -> None:
        try:
            for outcome in self._fetch(sorted(self._wanted)):
                self._found[outcome.index] = (self._wanted[outcome.index], outcome)
        except Exception as error:  # noqa: BLE001 - it is raised where the batch is needed
            self._error = error


class FetchedOutcomes:
    """The feed says that a task ended, and how; the server has the result or the traceback."""

    def __init__(
        self,
        fetch: Fetch,
        read: Read,
        feed: JobFeed,
        decode: Decode,
        *,
        return_exceptions: bool,
    ) -> None:
        self._fetch = fetch
        self._read = read
        self._feed = feed
        self._decode = decode
        self._return_exceptions = return_exceptions
        self._held: dict[int, tuple[int, Outcome]] = {}
        self._ahead: Batch | None = None
        self._coming: Sequence[int] = ()
        self._place = 0
        self._stop = 0
        self._size = FIRST_BATCH

    def expect(self, indices: Sequence[int], start: int, stop: int) -> None:
        self._coming, self._place, self._stop = indices, start, stop

    def holds(self, index: int, position: int) -> bool:
        held = self._held.get(index)
        return held is not None and held[0] == position

    def fetch(self, index: int, position: int) -> None:
        """Have this one and those after it. What the reader has passed is let go."""
        ahead, self._ahead = self._ahead, None
        self._held = {} if ahead is None else ahead.found()
        if not self.holds(index, position):
            wanted = {index: position, **self._following(index)}
            self._held = Batch(self._fetch, wanted).found()
            if index not in self._held:
                # An answer may be cut where it grows too large.
                self._held |= Batch(self._fetch, {index: position}).found()
        self._resize()
        following = self._following(index, beyond=self._held)
        if following:
            self._ahead = Batch(self._fetch, following)
            self._ahead.start()

    def value(self, index: int, state: int, position: int) -> Any:
        if not self.holds(index, position):
            self.fetch(index, position)
        held = self._held.get(index)
        outcome = held[1] if held is not None else None
        if state == TaskState.SUCCEEDED:
            if outcome is not None and outcome.result_digest:
                try:
                    return self._decode(self._large(index, outcome))
                except ResultLost as lost:
                    if self._return_exceptions:
                        return lost
                    raise
            if outcome is None or outcome.result is None:
                name = task_name(self._feed.job_id, index)
                why = outcome.error if outcome is not None else ""
                raise OperatingError(f"the server did not tell the result of task {name}: {why}")
            return self._decode(outcome.result)
        failure = self._failure(index, state, outcome)
        if self._return_exceptions:
            return failure
        raise failure

    def _large(self, index: int, outcome: Outcome) -> bytes:
        """Read when it is its turn, so that memory holds one of them at most."""
        content = self._read(index)
        found = new_digest()
        found.update(content)
        if found.hexdigest() != outcome.result_digest:
            name = task_name(self._feed.job_id, index)
            raise ResultLost("what the server sent is not what was stored", name)
        return content

    def _failure(self, index: int, state: int, outcome: Outcome | None) -> TaskFailed:
        name = TaskState(state).name
        error = traceback = ""
        # A task may have been sent back since; what it then came to is told in its own time.
        if outcome is not None and outcome.state == name:
            error, traceback = outcome.error, outcome.traceback
        if "cannot find 'script:" in error:
            error = f"{error}\n{SCRIPT_HINT}"
        return TaskFailed(task_name(self._feed.job_id, index), name, error, traceback)

    def _following(
        self, index: int, beyond: dict[int, tuple[int, Outcome]] | None = None
    ) -> dict[int, int]:
        """The next so many places after this one, and after those held, each with its position."""
        coming, stop, positions = self._coming, self._stop, self._feed.positions
        place = self._place
        while place < stop and coming[place] != index:
            place += 1
        self._place = place
        if beyond is not None:
            while place < stop and coming[place] in beyond:
                place += 1
        end = min(stop, place + self._size)
        return {wanted: positions[wanted] for wanted in coming[place:end]}

    def _resize(self) -> None:
        taken = sum(_weight(outcome) for _, outcome in self._held.values())
        mean = max(1, taken // max(1, len(self._held)))
        self._size = max(1, min(self._size * GROWTH, LARGEST_BATCH, BATCH_BYTES // mean))


def _weight(outcome: Outcome) -> int:
    return len(outcome.result or b"") + len(outcome.error) + len(outcome.traceback) + 1

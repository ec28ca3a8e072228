"""How tasks ended, read from the log of this very program."""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.client.backend import Decode
from holdfast.client.errors import TaskFailed
from holdfast.core import events as e
from holdfast.core.ids import JobId, Position, task_name
from holdfast.core.owed import Stored
from holdfast.core.record import Record
from holdfast.core.task import TaskState
from holdfast.wire.contents import Contents
from holdfast.wire.errors import ResultLost


class LoggedOutcomes:
    """Reads results and errors from the log, a record at a time: neighbours share one. A large
    result is read from the store beside it."""

    def __init__(
        self,
        read: Callable[[Position], Record],
        contents: Contents,
        job_id: JobId,
        decode: Decode,
        *,
        return_exceptions: bool,
    ) -> None:
        self._read = read
        self._contents = contents
        self._return_exceptions = return_exceptions
        self._job_id = job_id
        self._decode = decode
        self._position = 0
        self._results: dict[int, bytes | Stored] = {}
        self._ends: dict[int, e.End] = {}

    def value(self, index: int, state: int, position: int) -> Any:
        if position != self._position:
            self.fetch(index, position)
        if state == TaskState.SUCCEEDED:
            try:
                return self._decode(self._bytes_of(index))
            except ResultLost as lost:
                if self._return_exceptions:
                    return lost
                raise
        end = self._ends.get(index)
        error, traceback = ("", "") if end is None else (end.error, end.traceback)
        failure = TaskFailed(
            task_name(self._job_id, index), TaskState(state).name, error, traceback
        )
        if self._return_exceptions:
            return failure
        raise failure

    def _bytes_of(self, index: int) -> bytes:
        """A large one is read when it is its turn, so that memory holds one of them at most."""
        result = self._results[index]
        if isinstance(result, bytes):
            return result
        try:
            return self._contents.read(result)
        except ResultLost as lost:
            raise lost.of(task_name(self._job_id, index)) from None

    def holds(self, index: int, position: int) -> bool:
        return True

    def expect(self, indices: Sequence[int], start: int, stop: int) -> None:
        """The log is near enough to be read as the reader goes."""

    def fetch(self, index: int, position: int) -> None:
        self._results, self._ends = {}, {}
        for event in self._read(Position(position)).events:
            if getattr(event, "job_id", None) != self._job_id:
                continue
            if isinstance(event, e.TasksCompleted):
                self._results.update(
                    (commit.index, commit.stored or commit.result) for commit in event.commits
                )
            elif isinstance(event, e.TaskCommitted):
                self._results[event.commit.index] = event.commit.stored or event.commit.result
            elif isinstance(event, e.TasksQuarantined | e.TasksKilled | e.TasksSetAside):
                self._ends.update((end.index, end) for end in event.ends)
        self._position = position

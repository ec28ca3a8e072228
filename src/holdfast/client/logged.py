"""How tasks ended, read from the log of this very program."""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.client.backend import Decode
from holdfast.client.errors import TaskFailed
from holdfast.core import events as e
from holdfast.core.ids import JobId, Position, task_name
from holdfast.core.record import Record
from holdfast.core.task import TaskState


class LoggedOutcomes:
    """Reads results and errors from the log, a record at a time: neighbours share one."""

    def __init__(
        self,
        read: Callable[[Position], Record],
        job_id: JobId,
        decode: Decode,
        *,
        return_exceptions: bool,
    ) -> None:
        self._read = read
        self._return_exceptions = return_exceptions
        self._job_id = job_id
        self._decode = decode
        self._position = 0
        self._results: dict[int, bytes] = {}
        self._ends: dict[int, e.End] = {}

    def value(self, index: int, state: int, position: int) -> Any:
        if position != self._position:
            self.fetch(index, position)
        if state == TaskState.SUCCEEDED:
            return self._decode(self._results[index])
        end = self._ends.get(index)
        error, traceback = ("", "") if end is None else (end.error, end.traceback)
        failure = TaskFailed(
            task_name(self._job_id, index), TaskState(state).name, error, traceback
        )
        if self._return_exceptions:
            return failure
        raise failure

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
                self._results.update((commit.index, commit.result) for commit in event.commits)
            elif isinstance(event, e.TaskCommitted):
                self._results[event.commit.index] = event.commit.result
            elif isinstance(event, e.TasksQuarantined | e.TasksKilled):
                self._ends.update((end.index, end) for end in event.ends)
        self._position = position

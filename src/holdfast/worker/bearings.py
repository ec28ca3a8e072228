"""Where a task stands: what it may read about itself in its environment.

Commands are started with it. Functions find it in the environment of their warm process, which has
one task at a time. Threads share one environment, so functions that run in threads have none.
"""

import os
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from holdfast.core.ids import LeaseId, WorkerId
from holdfast.wire.exchange import Item, Run
from holdfast.worker.variables import Variable

LOCAL_WORKER: Final = WorkerId("local")
"""The worker inside a program."""
OF_RUN: Final = ("HOLDFAST_JOB_ID", "HOLDFAST_TASK_COUNT", "HOLDFAST_WORKER_ID")
OF_TASK: Final = (
    "HOLDFAST_TASK_ID", "HOLDFAST_TASK_INDEX", "HOLDFAST_ATTEMPT", "HOLDFAST_LEASE_ID",
)  # fmt: skip


def bearings(run: Run, item: Item, worker: WorkerId) -> dict[str, str]:
    """All of it for one attempt. The lease is the token that fences off earlier attempts."""
    return {
        **dict(zip(OF_RUN, _of_run(run, worker), strict=True)),
        **dict(zip(OF_TASK, _of_task(run, item), strict=True)),
    }


class Ids(Struct, frozen=True):
    """Who a task is."""

    job_id: str
    index: int
    attempt: int
    lease_id: LeaseId
    worker: str

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> "Ids":
        """As a command is told. `KeyError` or `ValueError` where it is not."""
        return cls(
            environment["HOLDFAST_JOB_ID"],
            int(environment["HOLDFAST_TASK_INDEX"]),
            int(environment["HOLDFAST_ATTEMPT"]),
            LeaseId(int(environment["HOLDFAST_LEASE_ID"])),
            environment["HOLDFAST_WORKER_ID"],
        )


class Bearings:
    """Those of the task that this process runs, kept in its own environment."""

    def __init__(self, worker: WorkerId) -> None:
        self._worker = worker
        self._run: Run | None = None
        self._is_set = True
        self._job = b""
        self._variables = tuple(map(Variable, OF_TASK))
        # A worker may itself have been started by a task.
        self.clear()

    def take(self, run: Run, item: Item) -> None:
        if run is not self._run:
            self._run, self._is_set = run, True
            os.environ.update(zip(OF_RUN, _of_run(run, self._worker), strict=True))
            self._job = os.fsencode(run.job_id) + b"/"
            for variable in self._variables:
                variable.is_there = False
        # The same as `_of_task`, by the shortest way: every task pays for it.
        index = b"%d" % item.index
        task_id, task_index, attempt, lease_id = self._variables
        task_id.write(self._job + index)
        task_index.write(index)
        attempt.write(b"%d" % item.attempt)
        lease_id.write(b"%d" % item.lease_id)

    def clear(self) -> None:
        """Nothing runs: whatever reads now is no task."""
        if self._is_set:
            self._run, self._is_set = None, False
            for name in (*OF_RUN, *OF_TASK):
                os.environ.pop(name, None)


def _of_run(run: Run, worker: WorkerId) -> tuple[str, str, str]:
    return run.job_id, str(run.task_count), worker


def _of_task(run: Run, item: Item) -> tuple[str, str, str, str]:
    index = str(item.index)
    return f"{run.job_id}/{index}", index, str(item.attempt), str(item.lease_id)

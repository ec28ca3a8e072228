"""`holdfast.open`: coordinator and local workers inside this program."""

import os
from pathlib import Path
from typing import Literal

from holdfast.client.amounts import Duration
from holdfast.client.holdfast import DEFAULT_GRACE, Holdfast
from holdfast.client.local import Local, MakeExecutor
from holdfast.worker.functions import MissingGuard, loading_script

EXECUTORS = ("threads", "processes")


def open(
    path: str | Path,
    *,
    executor: Literal["threads", "processes"] = "threads",
    workers: int | None = None,
    grace: Duration = DEFAULT_GRACE,
) -> Holdfast:
    """Open the folder at `path`, creating it where absent, and go on with what it holds.

    `threads` is fast and cannot kill a task; `processes` survives what user code may do. `workers`
    is how many tasks run at once, by default one a processor.
    """
    loading = loading_script()
    if loading is not None:
        raise MissingGuard(loading)
    if executor not in EXECUTORS:
        raise ValueError(f"executor={executor!r} must be one of {', '.join(EXECUTORS)}")
    slots = (os.cpu_count() or 1) if workers is None else workers
    if slots < 1:
        raise ValueError(f"workers={workers!r} must be at least 1")
    return Holdfast(Local(Path(path), _maker(executor), slots), grace)


def _maker(executor: str) -> MakeExecutor:
    if executor == "threads":
        from holdfast.worker.threads import ThreadExecutor

        return ThreadExecutor
    from holdfast.worker.processes import ProcessExecutor

    return ProcessExecutor

"""What attempts have staged and left lying: which of it nobody will ever ask for."""

from collections.abc import Iterable

from holdfast.core.ids import LeaseId
from holdfast.core.owed import FILE
from holdfast.core.state import State
from holdfast.core.task import TaskState
from holdfast.wire.delivery import Origin


def removable(state: State, origins: Iterable[Origin]) -> tuple[LeaseId, ...]:
    """The attempts whose files may go. Those of another log are not ours to judge, and one that may
    still commit, or whose task owes a file, has to be asked about again later."""
    return tuple(
        origin.lease_id
        for origin in origins
        if origin.log_id == state.log_id and not _is_wanted(state, origin)
    )


def _is_wanted(state: State, origin: Origin) -> bool:
    job = state.jobs.get(origin.job_id)
    if origin.lease_id >= state.next_lease:
        # Nobody was given it: these are files of a later time than this log knows.
        return True
    task = None if job is None or job.tasks is None else job.tasks.get(origin.index)
    if task is None:
        return False
    if task.state is TaskState.COMMITTED:
        # What else it owes, an effect or a block, may be parked for ever and needs no file.
        return any(debt.kind == FILE for debt in task.owed)
    return task.lease_id == origin.lease_id

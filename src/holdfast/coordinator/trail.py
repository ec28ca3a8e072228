"""The history of one task: every transaction that touched it, the oldest first.

The chain of its attempts leads from the last to the first, a few records whatever the log holds.
What happened between two links (a start, an operator's change, an endpoint) is on no chain and is
looked for, as far as the gaps are small enough to be read. Where they are not, or where old history
was dropped, the trail says that it is not complete.
"""

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Final

from msgspec import Struct, structs

from holdfast.coordinator.history import Past, links_of
from holdfast.coordinator.inspect import HistoryGone, Told
from holdfast.coordinator.views import View, rfc3339
from holdfast.core.ids import Index, Position
from holdfast.core.job import Job, birth_of, state_of
from holdfast.core.task import FINISHED
from holdfast.core.transactions import Action, transaction_of

MOST_LINKS: Final = 1_000
MOST_READ: Final = 5_000
"""How many records between links are read for one answer."""


class Trail(Struct, frozen=True):
    """`is_complete`: nothing that touched the task is missing."""

    transactions: list[View]
    is_complete: bool


def trail_of(past: Past, job: Job, index: Index, last: Position) -> Trail:
    """What is told of a task up to the position `last`."""
    born = birth_of(job, index)
    links = list(islice(links_of(past, job, index), MOST_LINKS))
    known = sorted({born, *links})
    found: dict[Position, View] = {}
    is_complete = len(links) < MOST_LINKS
    for position in known:
        try:
            _note(found, past.told(position), job, index)
        except HistoryGone:
            is_complete = False
    left = MOST_READ
    ends = [*known, Position(last + 1)] if _is_restless(job, index, found.get(known[-1])) else known
    for first, end in _gaps(ends):
        size = end - first + 1
        if size <= left and _read(past, first, end, found, job, index):
            left -= size
        else:
            is_complete = False
    return Trail([found[position] for position in sorted(found)], is_complete)


def _is_restless(job: Job, index: Index, last: View | None) -> bool:
    """Whether something may have happened after the last link. A finished task is left in peace
    until somebody sends it back; what its commit owed is delivered after that."""
    if state_of(job, index) not in FINISHED:
        return True
    actions = last["actions"] if last is not None else ()
    return any(action["action"] == "task_committed" for action in actions)


def _gaps(ends: list[Position]) -> Iterator[tuple[int, int]]:
    """What lies between the links, the newest first: it is what people ask about."""
    for earlier, later in reversed(list(pairwise(ends))):
        if later > earlier + 1:
            yield earlier + 1, later - 1


def _read(
    past: Past, first: int, last: int, found: dict[Position, View], job: Job, index: Index
) -> bool:
    try:
        for told in past.records(first, last):
            _note(found, told, job, index)
    except (HistoryGone, FileNotFoundError):
        return False
    return True


def _note(found: dict[Position, View], told: Told, job: Job, index: Index) -> None:
    """Keep a record that touched the task, with what it did to it."""
    if not any(_names(event, job.job_id) for event in told.record.events):
        return
    transaction = transaction_of(told.record, told.position)
    actions = [act for act in transaction.actions if _is_about(act, job.job_id, index)]
    if not any(_touches(act, job.job_id) for act in actions):
        return
    found[told.position] = {
        "position": int(told.position),
        "time": rfc3339(told.wall(transaction.time)),
        "command": transaction.command,
        "actor": transaction.actor,
        "request_id": transaction.request_id,
        "reason": transaction.reason,
        "actions": [structs.asdict(act) for act in actions],
    }


def _names(event: object, job_id: str) -> bool:
    return getattr(event, "job_id", None) == job_id


def _touches(action: Action, job_id: str) -> bool:
    """What happens to a job touches its tasks only where their time has come with it."""
    return action.entity != job_id or action.action == "job_due"


def _is_about(action: Action, job_id: str, index: Index) -> bool:
    """`JOB`, `JOB/3`, `JOB/0-9` and the entry `JOB/3.0` are about task 3 of the job."""
    if action.entity == job_id:
        return True
    name, _, tasks = action.entity.rpartition("/")
    first, _, last = tasks.partition(".")[0].partition("-")
    if name != job_id or not first.isdigit():
        return False
    return int(first) <= index <= int(last or first)

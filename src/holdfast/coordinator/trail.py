"""The history of one task: every transaction that touched it, the oldest first.

The chain of its attempts leads from the last to the first, a few records whatever the log holds.
What happened between two links (a start, an operator's change, an endpoint) is on no chain and is
looked for, as far as the gaps are small enough to be read. Where they are not, or where old history
was dropped, the trail says that it is not complete.
"""

from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from operator import itemgetter
from typing import Final

from msgspec import Struct, structs

from holdfast.coordinator.audit import entries_of, refused_entry
from holdfast.coordinator.history import Past, links_of
from holdfast.coordinator.inspect import HistoryGone, Told
from holdfast.coordinator.refusals import Refusal
from holdfast.coordinator.views import View, rfc3339
from holdfast.core.ids import Index, Position, task_name
from holdfast.core.job import Job, birth_of, state_of
from holdfast.core.task import FINISHED
from holdfast.core.transactions import Action, transaction_of
from holdfast.wire.wanted_entries import WantedEntries

MOST_LINKS: Final = 1_000
MOST_READ: Final = 5_000
"""How many records between links are read for one answer."""


Touch = tuple[View, list[View]]
"""A transaction that touched the task, and the moves that the task made in it."""


class Trail(Struct, frozen=True):
    """`is_complete`: nothing that touched the task is missing. `transitions` are its moves, each a
    line of the audit trail; among them those that were refused, as far as that is noted."""

    transactions: list[View]
    transitions: list[View]
    is_complete: bool

    def view(self) -> View:
        return {
            "transactions": self.transactions,
            "transitions": self.transitions,
            "complete": self.is_complete,
        }


def trail_of(
    past: Past, job: Job, index: Index, last: Position, refusals: Iterable[Refusal] = ()
) -> Trail:
    """What is told of a task up to the position `last`."""
    born = birth_of(job, index)
    links = list(islice(links_of(past, job, index), MOST_LINKS))
    known = sorted({born, *links})
    found: dict[Position, Touch] = {}
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
    touches = [found[position] for position in sorted(found)]
    moves = [(touch[0]["position"], 0, move) for touch in touches for move in touch[1]]
    name = task_name(job.job_id, index)
    moves += [
        (refusal.position, 1, refused_entry(refusal))
        for refusal in refusals
        if refusal.subject == name and refusal.position <= last
    ]
    moves.sort(key=itemgetter(0, 1))
    return Trail([touch[0] for touch in touches], [move for *_, move in moves], is_complete)


def _is_restless(job: Job, index: Index, last: Touch | None) -> bool:
    """Whether something may have happened after the last link. A finished task is left in peace
    until somebody sends it back; what its commit owed is delivered after that."""
    if state_of(job, index) not in FINISHED:
        return True
    actions = last[0]["actions"] if last is not None else ()
    return any(action["action"] == "task_committed" for action in actions)


def _gaps(ends: list[Position]) -> Iterator[tuple[int, int]]:
    """What lies between the links, the newest first: it is what people ask about."""
    for earlier, later in reversed(list(pairwise(ends))):
        if later > earlier + 1:
            yield earlier + 1, later - 1


def _read(
    past: Past, first: int, last: int, found: dict[Position, Touch], job: Job, index: Index
) -> bool:
    try:
        for told in past.records(first, last):
            _note(found, told, job, index)
    except (HistoryGone, FileNotFoundError):
        return False
    return True


def _note(found: dict[Position, Touch], told: Told, job: Job, index: Index) -> None:
    """Keep a record that touched the task, with what it did to it."""
    if not any(_names(event, job.job_id) for event in told.record.events):
        return
    transaction = transaction_of(told.record, told.position)
    actions = [act for act in transaction.actions if _is_about(act, job.job_id, index)]
    if not any(_touches(act, job.job_id) for act in actions):
        return
    transaction_view: View = {
        "position": int(told.position),
        "time": rfc3339(told.wall(transaction.time)),
        "command": transaction.command,
        "actor": transaction.actor,
        "request_id": transaction.request_id,
        "reason": transaction.reason,
        "actions": [structs.asdict(act) for act in actions],
    }
    found[told.position] = (transaction_view, _moves(told, job, index))


def _moves(told: Told, job: Job, index: Index) -> list[View]:
    """The lines of the audit trail that tell where this one task went."""
    wanted = WantedEntries(job_id=job.job_id, index=index)
    entries = (entry for entry in entries_of(told) if entry["task_id"] is not None)
    return [
        {**entry, "task_id": task_name(job.job_id, index)}
        for entry in entries
        if wanted.takes(entry)
    ]


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

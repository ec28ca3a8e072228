"""What must hold of what commits owe, and of the results that lie in the store."""

from collections.abc import Iterator

from holdfast.core.debts import Owing, Place
from holdfast.core.ids import NEVER, Position, effect_name, task_name
from holdfast.core.owed import BLOCK, Debt, DebtName
from holdfast.core.state import State
from holdfast.core.task import Task, TaskState
from holdfast.core.violation import Finding


def commit_line(state: State) -> Iterator[Finding]:
    """C1: who has crossed the line owes something, holds nothing and cannot run again."""
    for job in state.jobs.values():
        for task in (job.tasks or {}).values():
            name = task_name(job.job_id, task.index)
            crossed = task.state is TaskState.COMMITTED
            if crossed != bool(task.owed) or crossed != (task.committed > 0):
                owed = len(task.owed)
                yield name, f"it is {task.state.name}, owes {owed}, committed {task.committed}"
            if task.committed > state.position or task.granted > state.position:
                yield name, f"its records lie behind the end of the log at {state.position}"
            if crossed and job.payloads is not None and job.payloads[task.index] is not None:
                yield name, "it has committed and still has what it would run on"
            numbers = [debt.number for debt in task.owed]
            if numbers != sorted(set(numbers)):
                yield name, f"it owes {numbers}, which is no order of entries"
            blocks = [debt for debt in task.owed if debt.kind == BLOCK]
            if len(blocks) > 1 or (blocks and task.author is None):
                yield name, f"it has {len(blocks)} blocks, of {task.author}"


def debts_agree(state: State) -> Iterator[Finding]:
    """C4: every entry that is owed is on its way: ready, in hand, asleep until a known time, behind
    another of its key, run by its task, or parked; and the index says what a rebuild would say."""
    lines: dict[tuple[str, str, str], list[tuple[Position, str, int, int]]] = {}
    owed: dict[tuple[str, str], list[int]] = {}
    seen = 0
    for job in state.jobs.values():
        for task in (job.tasks or {}).values():
            for debt in task.owed:
                seen += 1
                counts = owed.setdefault((debt.kind, debt.place), [0, 0])
                counts[0] += 1
                counts[1] += debt.parked
                if debt.key:
                    at = (task.committed, job.job_id, task.index, debt.number)
                    lines.setdefault((debt.kind, debt.place, debt.key), []).append(at)
                yield from _is_on_its_way(state, task, debt)
    if seen != len(state.debts):
        yield "debts", f"{len(state.debts)} entries are kept and {seen} are owed"
    kept = {where: [place.owed, place.parked] for where, place in state.debts.places.items()}
    if kept != owed:
        yield "debts", f"they are counted as {kept} and are {owed}"
    standing = {
        (place.kind, place.name, key): [owing.order for owing in line]
        for place in state.debts.places.values()
        for key, line in place.lines.items()
    }
    for where in sorted(standing.keys() | lines.keys()):
        if standing.get(where) != sorted(lines.get(where, ())):
            yield "/".join(where), "the line is not in the order of the commits"
    if any(not names for names in state.debts.blocks.values()):
        yield "debts", "somebody is kept as running blocks and runs none"


def _is_on_its_way(state: State, task: Task, debt: Debt) -> Iterator[Finding]:
    subject = effect_name(task.job_id, task.index, debt.number)
    owing = state.debts.find(DebtName(task.job_id, task.index, debt.number))
    place = state.debts.places.get((debt.kind, debt.place))
    if owing is None or place is None or owing.debt is not debt:
        yield subject, "it is owed and in no book"
        return
    if owing.position != task.committed or debt.tries < 0:
        yield subject, f"it is kept at {owing.position} and was committed at {task.committed}"
    if debt.kind == BLOCK:
        author = task.author
        running = {} if author is None else state.debts.blocks.get(
            (author.worker, author.incarnation), {}
        )
        if (owing.name in running) == debt.parked:
            yield subject, "it is a block that is neither run nor parked, or both"
        return
    if _roads(place, owing) != 1:
        yield subject, f"it is on {_roads(place, owing)} roads to its end"


def _roads(place: Place, owing: Owing) -> int:
    """How many of the places where it can be found have it."""
    debt = owing.debt
    line = place.lines.get(debt.key) if debt.key else None
    is_behind = line is not None and line.head() is not owing
    alarm = debt.not_before != NEVER and any(entry[2] is owing for entry in place.asleep)
    if owing.name in place.ready:
        return 1 + (is_behind or owing.is_away or owing.is_asleep or debt.parked)
    if debt.parked:
        return 1 + owing.is_asleep
    if owing.is_asleep:
        return int(alarm)
    return int(owing.is_away or is_behind)


def stored_results(state: State) -> Iterator[Finding]:
    """C5: a result that lies in the store belongs to a task that has committed, and is found."""
    for job in state.jobs.values():
        for index in job.stored or {}:
            crossed = job.states[index] in (TaskState.COMMITTED, TaskState.SUCCEEDED)
            if not crossed or job.job_id not in state.storing:
                yield task_name(job.job_id, index), "its result is stored and it has none"
    for job_id in state.storing:
        known = state.jobs.get(job_id)
        if known is None or not known.stored:
            yield job_id, "it is kept as having stored results and has none"

"""Requests about many jobs or tasks, carried out a slice at a time, and taken back.

What is to be done is a plan of steps: questions to the coordinator, each short enough that others
have their turn, and reading of the log, which may wait for a disk. Whoever owns the loop or the
thread runs it. Every record carries the operation's id as its request id.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.library import Library
from holdfast.coordinator.selecting import TASKS_A_RECORD, Chosen, Selecting, Unclear
from holdfast.coordinator.undoing import (
    FINAL,
    GONE,
    MOVED_ON,
    STARTED,
    TASKS,
    Deeds,
    Kill,
    Origin,
    Retry,
    Shift,
    deeds_of,
    moves_back,
    origin_of,
    restorations,
    set_aside,
)
from holdfast.core import commands as c
from holdfast.core import commands_operations as o
from holdfast.core.command import Command
from holdfast.core.decision import Refused
from holdfast.core.ids import NOWHERE, Index, Instant, JobId, Position, task_name
from holdfast.core.job import Job
from holdfast.core.operation import (
    CANCEL_JOBS,
    CANCEL_TASKS,
    PURGE_TASKS,
    RESCHEDULE_TASKS,
    RETRY_JOBS,
    RETRY_TASKS,
    UNDO,
    Operation,
)
from holdfast.wire.amounts import duration_ms
from holdfast.wire.operations import SAMPLE, NewOperation, Preview
from holdfast.wire.specs import edited, instant_of

JOBS: Final = "jobs"
UNCHANGED: Final = "unchanged"
REFUSED: Final = "refused"
LEFT: Final = (UNCHANGED, REFUSED, STARTED, MOVED_ON, GONE, FINAL)
"""What an operation counts: the jobs and tasks it changed, and those it did not, by why."""

T = TypeVar("T")

COMMANDS_A_STEP: Final = 50
SHIFTS_A_STEP: Final = 5_000
REFUSALS_TOLD: Final = 10


class Ask(Struct, frozen=True):
    """Something that the coordinator is asked, on its own thread."""

    do: Callable[[Coordinator], Any]


class Read(Struct, frozen=True):
    """Something that is read from the log, wherever waiting for a disk harms nobody."""

    do: Callable[[], Any]


Plan = Generator[Ask | Read, Any, None]
"""Steps, each answered by what it came to."""


class Run:
    """One operation under way. `outcomes` grows as it goes on; `refusals` are some of those who
    were refused, with why."""

    def __init__(self, operation_id: str, actor: str, reason: str) -> None:
        self.operation_id = operation_id
        self.outcomes: Counter[str] = Counter()
        self.refusals: list[tuple[str, str]] = []
        self._actor = actor
        self._reason = reason
        self._changed: dict[JobId, None] = {}

    def recall(self, deeds: Deeds) -> None:
        """Go on from what it did before it was cut off."""
        self._changed.update(deeds.jobs)
        self.outcomes[JOBS] = len(self._changed)
        self.outcomes[TASKS] = deeds.tasks

    def execute(self, coordinator: Coordinator, command: Command, name: JobId) -> None:
        decision = coordinator.execute(
            command,
            actor=self._actor,
            request_id=self.operation_id,
            reason=self._reason,
            # Of many some are done already, and are counted as that.
            strict=False,
        )
        if isinstance(decision, Refused):
            self.refuse(name, decision.message)
            return
        changed = decision.answer if isinstance(decision.answer, int) else 0
        if not decision.events:
            self.outcomes[UNCHANGED] += 1
            return
        self._changed[name] = None
        self.outcomes[TASKS] += changed
        self.outcomes[JOBS] = len(self._changed)

    def refuse(self, name: JobId, why: str) -> None:
        """One of them cannot be; the others go on."""
        self.outcomes[REFUSED] += 1
        if len(self.refusals) < REFUSALS_TOLD:
            self.refusals.append((name, why))

    def end(self, coordinator: Coordinator) -> None:
        """Record that all of it was tried."""
        outcomes = tuple(sorted((name, n) for name, n in self.outcomes.items() if n))
        command = o.EndOperation(operation_id=self.operation_id, outcomes=outcomes)
        coordinator.execute(command, actor=self._actor, request_id=self.operation_id)


def preview_of(coordinator: Coordinator, body: NewOperation) -> Iterator[Preview | None]:
    """To how much it would be done, counted in portions: the last value is the answer."""
    selecting = _selecting(coordinator, body)
    jobs: dict[str, None] = {}
    tasks, sample = 0, list[str]()
    for chosen in selecting:
        if chosen.job is None:
            yield None
            continue
        jobs[chosen.job.job_id] = None
        tasks += len(chosen.indices) if chosen.indices else chosen.job.unfinished
        if len(sample) < SAMPLE:
            sample += _names(chosen)[: SAMPLE - len(sample)]
    yield Preview(len(jobs), tasks, sample)


def _names(chosen: Chosen) -> list[str]:
    if chosen.job is None or not chosen.indices:
        return [] if chosen.job is None else [chosen.job.job_id]
    return [task_name(chosen.job.job_id, index) for index in chosen.indices[:SAMPLE]]


def _selecting(coordinator: Coordinator, body: NewOperation) -> Selecting:
    if body.verb not in COMMANDS:
        raise Unclear("invalid", f"{body.verb[:40]!r} is none of {', '.join(COMMANDS)}")
    _check(body)
    return Selecting(coordinator.state, body.verb, body.selection, coordinator.now())


def _check(body: NewOperation) -> None:
    if (body.delay or body.not_before) and body.verb != RESCHEDULE_TASKS:
        raise Unclear("invalid", f"{body.verb} takes neither a delay nor an instant")
    if body.delay and body.not_before:
        raise Unclear("invalid", "give a delay or an instant, not both")
    if body.set is not None and body.verb != RETRY_JOBS:
        raise Unclear("invalid", "other terms are for the retry of whole jobs")
    if body.verb == PURGE_TASKS and not body.reason.strip():
        raise Unclear("invalid", "say why they are given up: `reason` is recorded")
    try:
        duration_ms(body.delay or None, "delay")
        instant_of(body.not_before, "not_before")
    except (ValueError, OverflowError) as error:
        raise Unclear("invalid", str(error)) from None


Maker = Callable[[NewOperation, Job, tuple[Index, ...]], Command]


def _retry_job(body: NewOperation, job: Job, indices: tuple[Index, ...]) -> Command:
    spec = None if body.set is None else edited(job.spec, body.set)
    return c.RetryTasks(job_id=job.job_id, spec=spec)


def _reschedule(body: NewOperation, job: Job, indices: tuple[Index, ...]) -> Command:
    return o.RescheduleTasks(
        job_id=job.job_id,
        indices=indices,
        delay_ms=duration_ms(body.delay or None, "delay"),
        not_before_wall=Instant(instant_of(body.not_before, "not_before")),
    )


COMMANDS: Final[dict[str, Maker]] = {
    CANCEL_JOBS: lambda body, job, _: c.KillJob(job_id=job.job_id, reason=body.reason),
    RETRY_JOBS: _retry_job,
    CANCEL_TASKS: lambda body, job, indices: c.KillTasks(
        job_id=job.job_id, indices=indices, reason=body.reason
    ),
    RETRY_TASKS: lambda _, job, indices: c.RetryTasks(job_id=job.job_id, indices=indices),
    RESCHEDULE_TASKS: _reschedule,
    PURGE_TASKS: lambda body, job, indices: c.PurgeTasks(
        job_id=job.job_id, indices=indices, reason=body.reason
    ),
}
"""What is done to one job, or to some of its tasks, by the verb."""


def carry_out(run: Run, operation: Operation, body: NewOperation, library: Library) -> Plan:
    """All that the request asks for; of one that was cut off, what is left of it."""
    yield from _recalled(run, operation, library)
    choosing: list[Iterator[Chosen]] = []
    yield Ask(lambda k: choosing.append(iter(_selecting(k, body))))
    made = COMMANDS[body.verb]

    def slice_of(coordinator: Coordinator) -> bool:
        for count, chosen in enumerate(choosing[0], start=1):
            if chosen.job is None:
                return True
            try:
                command = made(body, chosen.job, chosen.indices)
            except (ValueError, OverflowError) as error:
                run.refuse(chosen.job.job_id, str(error))
                continue
            run.execute(coordinator, command, chosen.job.job_id)
            if count >= COMMANDS_A_STEP or chosen.indices:
                return True
        return False

    while (yield Ask(slice_of)):
        pass
    yield Ask(run.end)


def _recalled(run: Run, operation: Operation, library: Library) -> Plan:
    """What it did before it was cut off."""
    last: Position = yield Ask(lambda k: k.state.position)
    if last > operation.first:
        deeds: Deeds = yield Read(lambda: deeds_in(operation, library, last))
        run.recall(deeds)


def deeds_in(operation: Operation, library: Library, until: Position) -> Deeds:
    """What an operation did, as its records tell; `HistoryGone` where those are not kept."""
    last = operation.last if operation.last != NOWHERE else until
    return deeds_of(library.history(operation.first, last), operation.operation_id)


def take_back(run: Run, undo: Operation, undone: Operation, library: Library) -> Plan:
    """Undo what has not begun since. What cannot be is counted by why."""
    yield from _recalled(run, undo, library)
    returned = run.outcomes[TASKS]
    until: Position = yield Ask(lambda k: k.state.position)
    try:
        deeds: Deeds = yield Read(lambda: deeds_in(undone, library, until))
    except (HistoryGone, FileNotFoundError):
        run.outcomes[GONE] += undone.total
        yield Ask(run.end)
        return
    run.outcomes[FINAL] += deeds.final
    for kills in _cut(deeds.kills, COMMANDS_A_STEP):
        yield from _restored(run, kills, library)
    note = f"the retry by {undone.operation_id} was undone"
    for retries in _cut(deeds.retries, COMMANDS_A_STEP):
        yield Ask(partial(_put_back, run, retries, note))
    for shifts in _cut(deeds.shifts, SHIFTS_A_STEP):
        yield Ask(partial(_move_back, run, shifts))
    # What it had taken back before it was cut off has moved on by its own doing.
    run.outcomes[MOVED_ON] -= returned
    yield Ask(run.end)


def _cut(whole: list[T], size: int) -> Iterator[list[T]]:
    for first in range(0, len(whole), size):
        yield whole[first : first + size]


def _put_back(run: Run, retries: list[Retry], note: str, coordinator: Coordinator) -> None:
    for retry in retries:
        command, left = set_aside(coordinator.state, retry, note)
        run.outcomes.update(left)
        if command is not None:
            run.execute(coordinator, command, retry.job_id)


def _move_back(run: Run, shifts: list[Shift], coordinator: Coordinator) -> None:
    commands, left = moves_back(coordinator.state, shifts, coordinator.now())
    run.outcomes.update(left)
    for command in commands:
        run.execute(coordinator, command, command.job_id)


def _restored(run: Run, kills: list[Kill], library: Library) -> Plan:
    """Where what they run with is, is asked; that is read; then they wait again, few records at a
    time."""
    run.outcomes[STARTED] += sum(kill.started for kill in kills)
    kills = [kill for kill in kills if kill.indices]
    origins: list[Origin | None] = yield Ask(
        lambda k: [origin_of(k.state, kill.job_id) for kill in kills]
    )
    commands: list[o.RestoreTasks] = []
    for kill, origin in zip(kills, origins, strict=True):
        found = None
        if origin is not None:
            found = yield Read(partial(restorations, library.told, kill, origin))
        if found is None:
            run.outcomes[GONE] += len(kill.indices)
            continue
        commands += found
        while sum(len(command.indices) for command in commands) >= TASKS_A_RECORD:
            # Many at once only where they are small: what a large job runs with is not held long.
            yield Ask(partial(_restore_some, run, commands[:1]))
            commands = commands[1:]
    yield Ask(partial(_restore_some, run, commands))


def _restore_some(run: Run, commands: list[o.RestoreTasks], coordinator: Coordinator) -> None:
    for command in commands:
        before, unchanged = run.outcomes[TASKS], run.outcomes[UNCHANGED]
        run.execute(coordinator, command, command.job_id)
        missed = len(command.indices) - (run.outcomes[TASKS] - before)
        # Counted by task, and not by job as well.
        run.outcomes[MOVED_ON], run.outcomes[UNCHANGED] = run.outcomes[MOVED_ON] + missed, unchanged


def request_of(operation: Operation) -> NewOperation:
    """What an operation was asked for, word for word."""
    return msgspec.json.decode(operation.request, type=NewOperation)


def plan_of(run: Run, operation: Operation, coordinator: Coordinator, library: Library) -> Plan:
    """The steps of an operation that was begun, whichever it is."""
    if operation.verb != UNDO:
        return carry_out(run, operation, request_of(operation), library)
    undone = coordinator.state.operations.get(operation.undoes)
    if undone is None:
        raise Unclear("gone", f"{operation.undoes} is no longer remembered")
    return take_back(run, operation, undone, library)


def follow(plan: Plan, ask: Callable[[Callable[[Coordinator], Any]], Any]) -> None:
    """Run a plan to its end, where waiting harms nobody. `ask` has a question answered."""
    try:
        step = next(plan)
        while True:
            try:
                answer = ask(step.do) if isinstance(step, Ask) else step.do()
            except (HistoryGone, FileNotFoundError) as gone:
                step = plan.throw(gone)
            else:
                step = plan.send(answer)
    except StopIteration:
        return

"""Why a task is where it is: what stands in its way, in words, and what to type about it.

Pure: a look at the task and at the workers goes in, reasons come out. A reason has a code that
stays, a sentence for people, and a command where somebody can do something. Whatever holds a task
up is told, not only the first thing that does.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from shlex import quote

from msgspec import Struct, structs

from holdfast.core.circuit import Circuit
from holdfast.core.ids import NEVER, NOWHERE, Instant, Position
from holdfast.core.service import Replica
from holdfast.core.shape import Shape
from holdfast.core.spec import JobSpec
from holdfast.core.task import FINISHED, TaskState
from holdfast.scheduler import desks
from holdfast.scheduler.desks import Desk
from holdfast.scheduler.guards import amount_reached, budget_reason, circuit_reasons, disk_reason
from holdfast.scheduler.ledger import TASKS, Bound
from holdfast.scheduler.owing import Standing, owed_reasons
from holdfast.scheduler.reasons import Reason, listed, sentence, span
from holdfast.scheduler.serving import Serving, open_reason, restart_reason
from holdfast.scheduler.ties import Tie, tie_reasons


class Pause(Struct, frozen=True):
    """A queue that is not given out. `by` is empty where it is no longer known who wanted that."""

    reason: str = ""
    by: str = ""


class Reached(Struct, frozen=True):
    """A bound that lets nothing more start, and the jobs that hold what it allows. A rate is
    written as people write it, and lets something start again `frees_ms` from now."""

    bound: Bound
    holders: tuple[tuple[str, int], ...] = ()
    rate: str = ""
    frees_ms: int | None = None


class Troop(Struct, frozen=True):
    """A gang: how many it is, how many of it could be leased now, and for how many there is room
    at once, where all of them may be together. `most` is for how many there would be if nothing
    else ran."""

    size: int
    ready: int
    room: int
    by: str = ""
    most: int = 0


class Situation(Struct, frozen=True, kw_only=True):
    """A task and its surroundings at one moment. `now` and `since` are log time, `wall` is what
    the wall clock shows at `now`. `desks` is None where nobody can say which workers there are.
    `active` is how many of its job are held by workers; `how` is what a finished task came to, and
    `may_return` whether a retry of its job would send it back.

    `wanted` is when it would be retried but for the retry budget of its job. `circuit` is that of
    what it runs, where it is not closed.

    `ties` are what its job comes after, `reached` the bounds that hold it back. `ahead` is how many
    waiting tasks go before it, `before` the jobs that what is free is kept for. `avoid` are workers
    it should not go to. `is_next`: a plan made now would place it. `ends_on` are the workers where
    attempts are ended for it. `owed` is what it has committed to and is not settled.
    """

    job_id: str
    task: str
    state: TaskState
    spec: JobSpec
    now: Instant
    wall: Instant
    attempt: int = 0
    failures: int = 0
    losses: int = 0
    not_before: Instant = NEVER
    not_before_wall: Instant = NEVER
    wanted: Instant = NEVER
    circuit: Circuit | None = None
    pause: Pause | None = None
    active: int = 0
    is_granting: bool = True
    suspended: str = ""
    withheld: str = ""
    desks: tuple[Desk, ...] | None = ()
    worker: str = ""
    since: Instant = NEVER
    how: str = ""
    shape: Shape | None = None
    ties: tuple[Tie, ...] = ()
    fate: str = ""
    reached: tuple[Reached, ...] = ()
    troop: Troop | None = None
    avoid: frozenset[str] = frozenset()
    replica: Replica | None = None
    served: Serving | None = None
    ahead: int = 0
    before: tuple[str, ...] = ()
    is_next: bool = False
    ends_on: tuple[str, ...] = ()
    owed: tuple[Standing, ...] = ()
    may_return: bool = False


class Group(Struct, frozen=True):
    """So many tasks of a job in one situation."""

    count: int
    situation: Situation


class JobSituation(Struct, frozen=True, kw_only=True):
    """A job at one moment: how it ended, or its tasks in groups of one situation each. Of an end
    that was not good, `example` is a task that shows it, `ended_at` where the log tells of that
    one, and `how` what it says. `may_return`: a retry would send something of it back."""

    job_id: str
    ended: str = ""
    may_return: bool = False
    reason: str = ""
    example: str = ""
    ended_at: Position = NOWHERE
    how: str = ""
    sealed: bool = True
    is_service: bool = False
    groups: tuple[Group, ...] = ()


def explain(here: Situation) -> tuple[Reason, ...]:
    """Everything there is to say about where a task is, the most telling first."""
    if here.state in FINISHED:
        return (_finished(here),)
    if here.state is TaskState.COMMITTED:
        return tuple(owed_reasons(here.job_id, here.owed, here.now, here.wall))
    if here.state is not TaskState.WAITING:
        return (_held(here),)
    if here.is_next:
        return (_next(here),)
    found = [*own_reasons(here), *worker_reasons(here)]
    return tuple(found) if found else (in_line(here),)


def own_reasons(here: Situation) -> Iterator[Reason]:
    """What has nothing to do with the workers."""
    yield from tie_reasons(here.job_id, here.ties, here.fate)
    yield from _times(here)
    yield from _bounds(here)


def standing_of(here: Situation) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each worker by name, with everything that stands against the task there."""
    for desk in here.desks or ():
        if here.shape is not None:
            found = desks.obstacles(desk, here.shape, here.avoid)
            yield desk.name, desks.against(found)


def explain_job(job: JobSituation) -> tuple[Reason, ...]:
    """The same of a whole job: each reason once, with how many tasks it is about."""
    if job.ended:
        return (_ended(job),)
    told: dict[tuple[str, str], Reason] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for group in job.groups:
        # A task may wait for two times, and that is one reason; two bounds are two.
        here = {_subject(reason): reason for reason in reversed(explain(group.situation))}
        for subject, reason in reversed(here.items()):
            counts[subject] += group.count
            told.setdefault(subject, structs.replace(reason, example=group.situation.task))
    found = [structs.replace(reason, tasks=counts[subject]) for subject, reason in told.items()]
    if not job.sealed:
        found.append(open_reason(job.is_service))
    return tuple(found)


def _ended(job: JobSituation) -> Reason:
    why = f": {job.reason}" if job.reason else ""
    shown = f"; {job.example + ': ' if job.example else ''}{job.how}" if job.how else ""
    return Reason(
        code="finished",
        sentence=sentence(f"it ended {job.ended}{why}{shown}"),
        command=f"holdfast job {'retry' if job.may_return else 'show'} {job.job_id}",
        example=job.example,
    )


def _subject(reason: Reason) -> tuple[str, str]:
    """What a reason is about, whichever task of a job it is said of."""
    is_bound = reason.code.startswith(("limit_", "rate_"))
    return reason.code, f"{reason.command} {reason.resource}" if is_bound else ""


def _finished(here: Situation) -> Reason:
    how = f": {here.how}" if here.how else ""
    command = f"job retry {here.job_id}" if here.may_return else f"task show {here.task}"
    name = here.state.name
    tries = "" if not here.attempt else f" with attempt {here.attempt}"
    said = sentence(f"it ended {name}{tries}{how}")
    return Reason(code="finished", sentence=said, command=f"holdfast {command}")


def _held(here: Situation) -> Reason:
    what = "runs" if here.state is TaskState.RUNNING else "holds"
    long = f", for {span(here.now - here.since)} now" if here.since != NEVER else ""
    not_yet = "" if here.state is TaskState.RUNNING else ", and has not said that it began"
    served = here.served
    told = f"{long}{not_yet}" + ("" if served is None else f"; it is {served.told}")
    reason = Reason(
        code="held",
        sentence=f"Worker {here.worker} {what} attempt {here.attempt} of it{told}.",
        command=f"holdfast worker show {quote(here.worker)}",
    )
    is_up = served is None or served.is_ready
    return reason if is_up else structs.replace(reason, code="unready")


def _times(here: Situation) -> Iterable[Reason]:
    """What only time mends, unless somebody moves the task."""
    now = f"holdfast task reschedule {here.task} --now"
    if here.not_before_wall != NEVER and here.not_before_wall > here.wall:
        left = span(here.not_before_wall - here.wall)
        yield Reason(
            code="not_begun",
            sentence=f"It may begin at a time of the calendar, in {left}.",
            command=now,
            until=here.not_before_wall,
        )
    if here.not_before <= here.now:
        return
    left = span(here.not_before - here.now)
    until = Instant(here.wall + here.not_before - here.now)
    if here.wanted != NEVER:
        budget = here.spec.retry_budget
        yield budget_reason(here.task, budget, here.wanted, here.not_before, here.now, here.wall)
    elif here.replica is not None:
        policy = here.spec.service
        yield restart_reason(here.task, policy, here.replica, here.not_before, here.now, here.wall)
    elif here.attempt:
        used = f"{here.failures} failures and {here.losses} losses"
        said = f"It waits another {left} before its next attempt, after {used}."
        yield Reason(code="backing_off", sentence=said, command=now, until=until)
    else:
        said = f"It was asked to begin later, in {left}."
        yield Reason(code="not_begun", sentence=said, command=now, until=until)


def _bounds(here: Situation) -> Iterable[Reason]:
    """What people decided."""
    if here.pause is not None:
        by = f" by {here.pause.by}" if here.pause.by else ""
        why = f": {here.pause.reason}" if here.pause.reason else ""
        yield Reason(
            code="queue_paused",
            sentence=f"Queue {here.spec.queue} is paused{by}{why}.",
            command=f"holdfast queue resume {quote(here.spec.queue)}",
        )
    yield from circuit_reasons(here.circuit, here.now, here.wall)
    most = here.spec.max_parallel
    needed = here.troop.size if here.troop is not None else 1
    if most and here.active + needed > most:
        runs = "is" if here.active == 1 else "are"
        yield Reason(
            code="max_parallel",
            sentence=f"Its job runs at most {most} at once; {here.active} of it {runs} under way.",
            command=f"holdfast task list {here.job_id} --state leased,running",
        )
    yield from _limits(here)
    if here.suspended:
        said = f"the log is suspended since its {here.suspended}: nothing is given out"
        yield Reason(
            code="log_suspended", sentence=sentence(said), command="holdfast log resume"
        )
    if here.withheld:
        yield disk_reason(here.withheld)
    if not here.is_granting:
        said = "the server is leaving and gives nothing out; the next one does"
        yield Reason(code="server_leaving", sentence=sentence(said))


def _limits(here: Situation) -> Iterator[Reason]:
    for reached in here.reached:
        bound = reached.bound
        scope, name = bound.name
        until, frees = NEVER, reached.frees_ms
        if bound.is_rate:
            said = f"{scope} {name} starts at most {reached.rate}, and has"
            said += "" if frees is None else f"; the next may in about {span(frees)}"
            until = NEVER if frees is None else Instant(here.wall + frees)
        elif bound.resource == TASKS:
            said = f"{scope} {name} runs at most {bound.most} at once"
        else:
            said = amount_reached(bound)
        held = listed([f"{count} of job {job}" for job, count in reached.holders])
        whose = ", and those are" if bound.resource == TASKS else "; it is held by"
        yield Reason(
            code=f"rate_{scope}" if bound.is_rate else f"limit_{scope}",
            sentence=sentence(f"{said}{whose} {held}" if held else said),
            command=f"holdfast limit show {scope}/{quote(name)}",
            until=until,
            jobs=tuple(job for job, _ in reached.holders),
            resource=bound.resource,
        )


def worker_reasons(here: Situation) -> Iterator[Reason]:
    """What the workers have to do with it. Nothing, where one of them has room."""
    if here.desks is None:
        yield Reason(
            code="workers_unknown",
            sentence="Which workers there were is not known: no note of them reaches back so far.",
            command="holdfast serve",
        )
    elif here.shape is not None:
        yield from desks.reasons(here.desks, here.shape, here.wall, here.avoid)
        yield from _troop(here)
        if here.ends_on:
            yield Reason(
                code="making_room",
                sentence=f"Attempts are being ended for it on {listed(here.ends_on)}.",
                command=f"holdfast worker show {quote(here.ends_on[0])}",
                workers=here.ends_on,
            )


def _troop(here: Situation) -> Iterator[Reason]:
    troop = here.troop
    if troop is None:
        return
    if troop.ready < troop.size:
        said = f"all {troop.size} of its gang start at once, and {troop.ready} could start now"
        yield Reason(code="gang_not_ready", sentence=sentence(said))
    elif troop.room < troop.size:
        where = f" on workers of one {troop.by}" if troop.by else ""
        said = f"all {troop.size} of its gang start at once{where}; there is room for {troop.room}"
        if troop.by and not troop.most:
            said = f"all of its gang start on workers of one {troop.by}, and none has such a thing"
        elif troop.most < troop.size:
            said += f", and for no more than {troop.most} where nothing else runs"
        yield Reason(
            code="gang_room", sentence=sentence(said), command="holdfast worker list -o wide"
        )


def in_line(here: Situation) -> Reason:
    """Somebody has room for it, and what there is goes to others."""
    if here.before:
        return Reason(
            code="kept_for_others",
            sentence=f"What is free is kept for what goes before it: job {listed(here.before)}.",
            command=f"holdfast job explain {here.before[0]}",
            jobs=here.before,
        )
    said = "what is free goes to tasks before it"
    command = f"holdfast task list {here.job_id} --state waiting"
    return Reason(code="in_line", sentence=sentence(said), command=command)


def _next(here: Situation) -> Reason:
    ahead = f", after {here.ahead} before it" if here.ahead else ""
    said = f"a worker has room for it: it is about to be given out{ahead}"
    return Reason(code="next", sentence=sentence(said))

"""Why a task is where it is: what stands in its way, in words, and what to type about it.

Pure: a look at the task and at the workers goes in, reasons come out. A reason has a code that
stays, a sentence for people, and a command where somebody can do something. Whatever holds a task
up is told, not only the first thing that does.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import Final

from msgspec import Struct

from holdfast.core.ids import NEVER, Instant
from holdfast.core.spec import JobSpec
from holdfast.core.task import FINISHED, TaskState

OPEN: Final = "open"
CORDONED: Final = "cordoned"
DRAINING: Final = "draining"
SILENT: Final = "silent"

SHOWN: Final = 3
_UNITS: Final = ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki"))


class Reason(Struct, frozen=True, kw_only=True):
    """One thing that is so. `until`: when the wall clock will show that it is over, where that is
    known. `tasks` is how many of a job it is about, and `example` one of them."""

    code: str
    sentence: str
    command: str = ""
    until: Instant = NEVER
    tasks: int = 0
    example: str = ""


class Desk(Struct, frozen=True, kw_only=True):
    """A worker: whether it takes work, all it has, and what of that is free."""

    name: str
    standing: str = OPEN
    slots: int = 1
    cpus_milli: int = 1_000
    memory_bytes: int = 0
    gpus: int = 0
    free_slots: int = 1
    free_cpus_milli: int = 1_000
    free_memory_bytes: int = 0
    free_gpus: int = 0

    def suits(self, spec: JobSpec) -> bool:
        """Whether the task would fit if nothing else were there."""
        return (
            self.slots > 0
            and spec.cpus_milli <= self.cpus_milli
            and spec.memory_bytes <= self.memory_bytes
            and spec.gpus <= self.gpus
        )

    def has_room(self, spec: JobSpec) -> bool:
        return (
            self.free_slots > 0
            and spec.cpus_milli <= self.free_cpus_milli
            and spec.memory_bytes <= self.free_memory_bytes
            and spec.gpus <= self.free_gpus
        )


class Pause(Struct, frozen=True):
    """A queue that is not given out. `by` is empty where it is no longer known who wanted that."""

    reason: str = ""
    by: str = ""


class Situation(Struct, frozen=True, kw_only=True):
    """A task and its surroundings at one moment. `now` and `since` are log time, `wall` is what
    the wall clock shows at `now`. `desks` is None where nobody can say which workers there are.
    `active` is how many of its job are held by workers; `how` is
    what a finished task came to."""

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
    pause: Pause | None = None
    active: int = 0
    is_granting: bool = True
    desks: tuple[Desk, ...] | None = ()
    worker: str = ""
    since: Instant = NEVER
    how: str = ""


class Group(Struct, frozen=True):
    """So many tasks of a job in one situation."""

    count: int
    situation: Situation


class JobSituation(Struct, frozen=True, kw_only=True):
    """A job at one moment: how it ended, or its tasks in groups of one situation each."""

    job_id: str
    ended: str = ""
    reason: str = ""
    sealed: bool = True
    groups: tuple[Group, ...] = ()


def explain(here: Situation) -> tuple[Reason, ...]:
    """Everything there is to say about where a task is, the most telling first."""
    if here.state in FINISHED:
        return (_finished(here),)
    if here.state is TaskState.COMMITTED:
        said = "it has a result, and what that owes others is being delivered"
        return (Reason(code="delivering", sentence=_sentence(said)),)
    if here.state is not TaskState.WAITING:
        return (_held(here),)
    found = [*_times(here), *_bounds(here), *_workers(here)]
    if not found:
        said = "a worker has room for it: it is about to be given out, after those before it"
        found = [Reason(code="next", sentence=_sentence(said))]
    return tuple(found)


def explain_job(job: JobSituation) -> tuple[Reason, ...]:
    """The same of a whole job: each reason once, with how many tasks it is about."""
    if job.ended:
        why = f": {job.reason}" if job.reason else ""
        command = f"holdfast job show {job.job_id}"
        if job.ended == "FAILED":
            command = f"holdfast job retry {job.job_id}"
        return (
            Reason(code="finished", sentence=f"It ended {job.ended}{why}.", command=command),
        )
    told: dict[str, Reason] = {}
    counts: Counter[str] = Counter()
    for group in job.groups:
        for reason in explain(group.situation):
            counts[reason.code] += group.count
            told.setdefault(reason.code, _about(reason, group.situation.task))
    found = [_counted(reason, counts[code]) for code, reason in told.items()]
    if not job.sealed:
        said = "it is still being fed: it ends when its feeder says that there is no more"
        found.append(Reason(code="open", sentence=_sentence(said)))
    return tuple(found)


def _about(reason: Reason, task: str) -> Reason:
    return Reason(
        code=reason.code, sentence=reason.sentence, command=reason.command, until=reason.until,
        example=task,
    )  # fmt: skip


def _counted(reason: Reason, count: int) -> Reason:
    return Reason(
        code=reason.code, sentence=reason.sentence, command=reason.command, until=reason.until,
        example=reason.example, tasks=count,
    )  # fmt: skip


def _finished(here: Situation) -> Reason:
    how = f": {here.how}" if here.how else ""
    command = f"holdfast task show {here.task}"
    if here.state is TaskState.QUARANTINED:
        command = f"holdfast job retry {here.job_id}"
    name = here.state.name
    tries = "" if not here.attempt else f" with attempt {here.attempt}"
    return Reason(code="finished", sentence=f"It ended {name}{tries}{how}.", command=command)


def _held(here: Situation) -> Reason:
    what = "runs" if here.state is TaskState.RUNNING else "holds"
    long = f", for {span(here.now - here.since)} now" if here.since != NEVER else ""
    not_yet = "" if here.state is TaskState.RUNNING else ", and has not said that it began"
    return Reason(
        code="held",
        sentence=f"Worker {here.worker} {what} attempt {here.attempt} of it{long}{not_yet}.",
        command=f"holdfast worker show {quote(here.worker)}",
    )


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
    if here.attempt:
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
    most = here.spec.max_parallel
    if most and here.active >= most:
        yield Reason(
            code="max_parallel",
            sentence=f"Its job runs at most {most} tasks at once, and {here.active} are under way.",
            command=f"holdfast task list {here.job_id} --state leased,running",
        )
    if not here.is_granting:
        said = "the server is leaving and gives nothing out; the next one does"
        yield Reason(code="server_leaving", sentence=_sentence(said))


def _workers(here: Situation) -> Iterable[Reason]:
    """What the workers have to do with it. Nothing, where one of them has room."""
    if here.desks is None:
        yield Reason(
            code="workers_unknown",
            sentence="Which workers there are is in no log: only a running server knows.",
            command="holdfast serve",
        )
        return
    if not here.desks:
        yield Reason(
            code="no_worker",
            sentence="No worker is connected.",
            command="holdfast worker start",
        )
        return
    suited = [desk for desk in here.desks if desk.suits(here.spec)]
    if not suited:
        yield _too_large(here.spec, here.desks)
        return
    is_taking = [desk for desk in suited if desk.standing == OPEN]
    if any(desk.has_room(here.spec) for desk in is_taking):
        return
    if is_taking:
        said = f"{_those(is_taking, 'that it fits on')} busy"
        yield Reason(code="workers_busy", sentence=f"{said}.", command="holdfast worker list")
    for standing, code in (
        (CORDONED, "workers_cordoned"), (DRAINING, "workers_draining"), (SILENT, "workers_silent"),
    ):  # fmt: skip
        desks = [desk for desk in suited if desk.standing == standing]
        if desks:
            said = f"{_those(desks, 'that it fits on')} {standing}"
            yield Reason(code=code, sentence=f"{said}.", command=_remedy(desks, standing))


def _too_large(spec: JobSpec, desks: Sequence[Desk]) -> Reason:
    """Told by what is short everywhere; where each is enough somewhere, by all of it."""
    needs: list[str] = []
    if spec.cpus_milli > (most := max(desk.cpus_milli for desk in desks)):
        needs.append(f"{spec.cpus_milli / 1_000:g} cpus where the largest has {most / 1_000:g}")
    if spec.memory_bytes > (most := max(desk.memory_bytes for desk in desks)):
        needs.append(f"{amount(spec.memory_bytes)} of memory where the most is {amount(most)}")
    if spec.gpus > (most := max(desk.gpus for desk in desks)):
        needs.append(f"{spec.gpus} gpus where the most is {most}")
    if not needs:
        wanted = f"{spec.cpus_milli / 1_000:g} cpus, {amount(spec.memory_bytes)} of memory and "
        needs.append(f"{wanted}{spec.gpus} gpus, all on one worker")
    return Reason(
        code="too_large",
        sentence=f"It fits on none of {_many(len(desks))}: it needs {' and '.join(needs)}.",
        command="holdfast worker list",
    )


def _remedy(desks: Sequence[Desk], standing: str) -> str:
    if standing == SILENT or len(desks) > 1:
        return "holdfast worker list"
    return f"holdfast worker uncordon {quote(desks[0].name)}"


def _those(desks: Sequence[Desk], which: str) -> str:
    """`The one worker that it fits on (w1) is`, `2 workers that it fits on (w1, w2) are`."""
    names = ", ".join(desk.name for desk in desks[:SHOWN])
    more = f" and {len(desks) - SHOWN} more" if len(desks) > SHOWN else ""
    one = len(desks) == 1
    many = "One worker" if one else f"{len(desks)} workers"
    return f"{many} {which} ({names}{more}) {'is' if one else 'are'}"


def _many(count: int) -> str:
    return "the one worker there is" if count == 1 else f"the {count} workers"


def _sentence(said: str) -> str:
    return f"{said[0].upper()}{said[1:]}."


def amount(count: int) -> str:
    """`512Mi`, as it is written when a job is submitted."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.4g}{name}"
    return f"{count} bytes"


def span(ms: int) -> str:
    """`250ms`, `3.2s`, `2m 5s`, `3h 10m`, `2d 4h`: exact enough to decide whether to wait."""
    ms = max(0, ms)
    if ms < 1_000:
        return f"{ms}ms"
    seconds = ms // 1_000
    if seconds < 60:
        return f"{ms / 1_000:.1f}s"
    minutes, hours, days = seconds // 60, seconds // 3_600, seconds // 86_400
    if minutes < 60:
        return f"{minutes}m {seconds % 60}s"
    return f"{hours}h {minutes % 60}m" if hours < 24 else f"{days}d {hours % 24}h"

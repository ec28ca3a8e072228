"""Schedules: work that comes again. Made, replaced, looked at, paused, run by hand, removed."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import structs

from holdfast.api.bundles import check_bundle
from holdfast.api.call import Answer, Call, Done
from holdfast.api.fitting import check_fit
from holdfast.api.jobs import submission
from holdfast.api.problems import Declined, understood
from holdfast.api.tags import names
from holdfast.coordinator import schedules as desk
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.schedules import Mistimed, schedule_detail, schedule_view
from holdfast.coordinator.views import rfc3339
from holdfast.core import commands as c
from holdfast.core import commands_schedules as s
from holdfast.core import events as e
from holdfast.core.command import Command
from holdfast.core.decide.schedules import no_schedule
from holdfast.core.decision import Decision
from holdfast.core.ids import Instant
from holdfast.core.schedule import SCHEDULED_AT, Definition, Schedule, Timing
from holdfast.core.state import State
from holdfast.wire.amounts import duration_ms
from holdfast.wire.bodies import Reason
from holdfast.wire.schedules import NewSchedule, Range, Timetable
from holdfast.wire.specs import instant_of

VARIABLE: Final = "HOLDFAST_SCHEDULED_AT"
"""Where a command finds the instant that its run is for."""
NEXT: Final = 5


async def list_schedules(call: Call) -> Answer:
    """The schedules, by name."""
    namespace = call.one("namespace")

    def look(coordinator: Coordinator) -> list[dict[str, Any]]:
        state, wall = coordinator.state, coordinator.clock.wall()
        return [
            schedule_view(state, schedule, call.service.wall, wall)
            for _, schedule in sorted(state.schedules.items())
            if not namespace or schedule.definition.spec.namespace == namespace
        ]

    return Answer({"schema": 1, "schedules": await call.ask(look)})


async def show(call: Call) -> Answer:
    """A schedule, what it runs and when it comes next. Its ETag is that of its definition."""
    return await _shown(call, call.path["name"])


async def next_instants(call: Call) -> Answer:
    """The next instants, as if it were not paused."""
    count = max(1, call.number("count", NEXT, most=desk.NEXT_MOST))

    def look(coordinator: Coordinator) -> list[str]:
        schedule = schedule_of(coordinator.state, call.path["name"])
        return [rfc3339(at) for at in desk.coming(schedule, coordinator.clock.wall(), count)]

    return Answer({"schema": 1, "name": call.path["name"], "coming": await call.ask(look)})


async def create(call: Call) -> Answer:
    """Have a job submitted again and again. The same again finds the schedule it made."""
    body: NewSchedule = call.body
    return await _set(call, body.name, body)


async def replace(call: Call) -> Answer:
    """Make a schedule, or give it another definition; If-Match names the one that is meant."""
    body: Timetable = call.body
    return await _set(call, call.path["name"], body, replace=True)


async def _set(call: Call, name: str, body: Timetable, *, replace: bool = False) -> Answer:
    definition, start = _definition(call, body)

    def make(coordinator: Coordinator) -> Command:
        state = coordinator.state
        if replace:
            _check_former(call, state.schedules.get(name))
        check_bundle(call, definition.spec.bundle)
        count = len(definition.items) or definition.count
        check_fit(call, coordinator, definition.spec, count, must_fit=body.job.must_fit)
        command = desk.setting(
            state, coordinator.clock.wall(), name, definition, start=start, replace=replace
        )
        return structs.replace(command, **call.keying())

    existed = await call.look(lambda state: name in state.schedules)
    done = await _execute(call, make)
    status = 201 if done.find(e.ScheduleSet) is not None and not existed else 200
    return await _shown(call, name, status)


def _definition(call: Call, body: Timetable) -> tuple[Definition, Instant]:
    job = body.job
    if job.command is not None:
        env = {VARIABLE: SCHEDULED_AT, **job.command.env}
        job = structs.replace(job, command=structs.replace(job.command, env=env))
    request = submission(call, job)
    _check_comes_again(call, request)
    with understood():
        timing = Timing(
            cron=body.cron.strip(),
            every_ms=duration_ms(body.every or None, "every"),
            zone=body.zone,
        )
        start = Instant(instant_of(body.start, "start"))
        if body.every and not timing.every_ms:
            raise ValueError(desk.too_short(timing.every_ms))
    definition = Definition(
        timing=timing,
        spec=request.spec,
        items=request.items,
        count=request.count,
        shared=request.shared,
        missed=body.missed,
        overlap=body.overlap,
    )
    return definition, start


def _check_comes_again(call: Call, request: c.SubmitJob) -> None:
    """What is said of one submit (its key, its time, what it comes after) cannot be said of all."""
    kept = c.SubmitJob(
        spec=request.spec,
        items=request.items,
        count=request.count,
        shared=request.shared,
        **call.keying(),
    )
    for word in request.__struct_fields__:
        if getattr(request, word) != getattr(kept, word):
            raise Declined("invalid", f"the job of a schedule has no {word}: each run is a new job")


async def pause(call: Call) -> Answer:
    """Begin nothing more by the clock; what runs goes on."""
    body: Reason = call.body
    name = call.path["name"]
    await call.execute(
        s.PauseSchedule(name=name, reason=body.reason, **call.keying()), reason=body.reason
    )
    return await _shown(call, name)


async def resume(call: Call) -> Answer:
    """Go on with the next instant from now; what came meanwhile is not made up for."""
    body: Reason = call.body
    name = call.path["name"]

    def make(coordinator: Coordinator) -> Command:
        command = desk.resuming(coordinator.state, coordinator.clock.wall(), name)
        return structs.replace(command, **call.keying())

    await _execute(call, make, reason=body.reason)
    return await _shown(call, name)


async def run(call: Call) -> Answer:
    """Run it now, whatever its clock says."""
    body: Reason = call.body

    def make(coordinator: Coordinator) -> Command:
        command = desk.running(coordinator.clock.wall(), call.path["name"])
        return structs.replace(command, **call.keying())

    done = await _execute(call, make, reason=body.reason)
    (job_id,) = _runs(done)
    here = (("location", f"/api/v1/jobs/{job_id}"),)
    return Answer({"schema": 1, "job_id": job_id}, 201, here)


async def backfill(call: Call) -> Answer:
    """Run the instants of a stretch of the past, but for those whose run is known."""
    body: Range = call.body
    with understood():
        first, last = instant_of(body.first, "first"), instant_of(body.last, "last")
    found: dict[str, int] = {}

    def make(coordinator: Coordinator) -> Command:
        wall = coordinator.clock.wall()
        command = desk.backfilling(
            coordinator.state, wall, call.path["name"], Instant(first), Instant(last or wall)
        )
        found["instants"] = len(command.moments)
        return structs.replace(command, **call.keying())

    runs = _runs(await _execute(call, make))
    return Answer({"schema": 1, "job_ids": runs, "instants": found["instants"]})


async def remove(call: Call) -> Answer:
    """Remove a schedule; the runs it began go on. If-Match names the definition that is meant."""
    name = call.path["name"]

    def make(coordinator: Coordinator) -> Command:
        _check_former(call, coordinator.state.schedules.get(name))
        return s.RemoveSchedule(name=name)

    await _execute(call, make)
    return Answer({})


async def _execute(call: Call, make: Callable[[Coordinator], Command], *, reason: str = "") -> Done:
    """Made and judged in one step: nobody comes between the calendar and the record."""

    def ask(coordinator: Coordinator) -> Decision:
        try:
            command = make(coordinator)
        except Mistimed as error:
            raise Declined("invalid", str(error)) from error
        return call.decide(coordinator, command, reason=reason)

    return await call.found(await call.ask(ask))


def _runs(done: Done) -> list[str]:
    return [event.job_id for event in done.events if isinstance(event, e.ScheduleFired)]


async def _shown(call: Call, name: str, status: int = 200) -> Answer:
    def look(coordinator: Coordinator) -> tuple[dict[str, Any], str]:
        state = coordinator.state
        schedule = schedule_of(state, name)
        view = schedule_detail(state, schedule, call.service.wall, coordinator.clock.wall())
        return view, tag_of(schedule)

    view, tag = await call.ask(look)
    return Answer({"schema": 1, **view}, status, (("etag", tag),))


def schedule_of(state: State, name: str) -> Schedule:
    """The schedule a path names; `Declined` where there is none."""
    schedule = state.schedules.get(name)
    if schedule is None:
        refused = no_schedule(name)
        raise Declined(refused.code.value, refused.message)
    return schedule


def tag_of(schedule: Schedule) -> str:
    """Another one wherever the definition was replaced."""
    return f'"{schedule.revision}"'


def _check_former(call: Call, known: Schedule | None) -> None:
    """Whoever says what they believe to change is refused where it is something else."""
    wanted, unwanted = call.headers.get("if-match", ""), call.headers.get("if-none-match", "")
    tag = tag_of(known) if known is not None else ""
    if wanted and not names(wanted, tag):
        now = f"it is {tag} now" if tag else "there is none"
        raise Declined("precondition_failed", f"the schedule is not the one named: {now}")
    if unwanted and names(unwanted, tag):
        raise Declined("precondition_failed", f"there is such a schedule already: {tag}")

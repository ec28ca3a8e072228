"""Schedules: set, paused, fired. A fire and the job it submits are one record, so that a crash
between two records neither loses a run nor doubles it."""

from msgspec import structs

from holdfast.core import commands as c
from holdfast.core import commands_schedules as s
from holdfast.core import events as e
from holdfast.core.decide.endings import stop_rest
from holdfast.core.decide.jobs import submit
from holdfast.core.decide.lineage import suspended
from holdfast.core.decide.wishes import LARGEST
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import NEVER, Instant, JobId
from holdfast.core.job import REPLACED, only_owes
from holdfast.core.schedule import (
    BACKFILL,
    BACKFILL_MAX,
    BY_HAND,
    CAUSES,
    CRON_CHARACTERS_MAX,
    LABEL,
    MISSED,
    OVERLAPS,
    REPLACE,
    SHORTEST_MS,
    SKIP,
    Definition,
    Schedule,
    Timing,
    run_key,
    stamped,
)
from holdfast.core.state import State

NAME_MAX = 200
SCHEDULES_MAX = 10_000


def set_schedule(state: State, command: s.SetSchedule, now: Instant) -> Decision:
    """The answer is whether something changed: the same definition again adds nothing. Its job is
    judged here as it will be when it is submitted, so that no fire meets one that cannot be."""
    name = command.name
    problem = _problem(command)
    if problem:
        return Refused(Reason.INVALID, problem)
    known = state.schedules.get(name)
    definition = labelled(name, command.definition)
    if command.revision and (known is None or known.revision != command.revision):
        return Refused(Reason.CONFLICT, f"schedule {name} is not the one that was looked at")
    if known is not None and known.definition == definition:
        return Accepted((), False)
    if known is not None and not command.replace:
        return Refused(
            Reason.CONFLICT,
            f"there is a schedule {name} already, with another definition; replace it "
            "(--replace, replace=True) or delete it",
        )
    if known is not None and NEVER < command.next_wall <= known.last_wall:
        return Refused(Reason.INVALID, f"schedule {name} has passed {command.next_wall} already")
    if known is None and len(state.schedules) >= SCHEDULES_MAX:
        return Refused(Reason.TOO_LARGE, f"there are {SCHEDULES_MAX} schedules already")
    trial = submit(state, _submission(definition, "", b""), now)
    if isinstance(trial, Refused):
        return trial
    event = e.ScheduleSet(name=name, definition=definition, next_wall=command.next_wall)
    return Accepted((event,), True)


def remove_schedule(state: State, command: s.RemoveSchedule, now: Instant) -> Decision:
    if command.name not in state.schedules:
        return no_schedule(command.name)
    return Accepted((e.ScheduleRemoved(name=command.name),))


def pause_schedule(state: State, command: s.PauseSchedule, now: Instant) -> Decision:
    schedule = state.schedules.get(command.name)
    if schedule is None:
        return no_schedule(command.name)
    if schedule.paused and schedule.reason == command.reason:
        return Accepted((), False)
    return Accepted((e.SchedulePaused(name=command.name, reason=command.reason),), True)


def resume_schedule(state: State, command: s.ResumeSchedule, now: Instant) -> Decision:
    schedule = state.schedules.get(command.name)
    if schedule is None:
        return no_schedule(command.name)
    if not schedule.paused:
        return Accepted((), False)
    if not _follows(command.next_wall, schedule.last_wall):
        return Refused(Reason.INVALID, f"schedule {command.name} has passed that instant already")
    return Accepted((e.ScheduleResumed(name=command.name, next_wall=command.next_wall),), True)


def fire(state: State, command: s.FireSchedule, now: Instant) -> Decision:
    """The answer is the id of the run, or None where there is none. An instant that was taken
    before adds nothing."""
    schedule = state.schedules.get(command.name)
    if schedule is None:
        return no_schedule(command.name)
    if command.cause not in CAUSES or command.cause == BACKFILL:
        return Refused(Reason.INVALID, f"a schedule is not fired for {command.cause!r}")
    if command.cause == BY_HAND:
        return _submitted(state, schedule, command, now, key="")
    if state.suspended:
        return suspended()
    if command.at_wall <= schedule.last_wall:
        return Accepted((), None)
    refused = _out_of_turn(schedule, command.at_wall, command.next_wall)
    if refused is not None:
        return refused
    last = state.jobs.get(schedule.last_job)
    if schedule.definition.overlap == SKIP and last is not None and not only_owes(last):
        return Accepted((_skipped(command, "overlap"),), None)
    return _submitted(state, schedule, command, now, run_key(schedule.name, command.at_wall))


def _submitted(
    state: State, schedule: Schedule, command: s.FireSchedule, now: Instant, key: str
) -> Decision:
    """The run, and under `replace` the end of the one before it."""
    request = _submission(schedule.definition, key, command.stamp)
    decision = submit(state, request, now)
    if isinstance(decision, Refused) and decision.code not in (Reason.GONE, Reason.KEY_REUSED):
        return decision
    if isinstance(decision, Refused) or not decision.events:
        return Accepted((_skipped(command, "known"),), None)
    by_hand = command.cause == BY_HAND
    fired = e.ScheduleFired(
        name=schedule.name,
        at_wall=command.at_wall,
        next_wall=schedule.next_wall if by_hand else command.next_wall,
        job_id=JobId(str(decision.answer)),
        cause=command.cause,
    )
    events: list[e.AnyEvent] = []
    last = state.jobs.get(schedule.last_job)
    replaces = schedule.definition.overlap == REPLACE
    if replaces and not by_hand and last is not None and not only_owes(last):
        events.extend(stop_rest(last, REPLACED, f"schedule {schedule.name} came again", now))
    return Accepted((*events, *decision.events, fired), decision.answer)


def skip(state: State, command: s.SkipInstants, now: Instant) -> Decision:
    schedule = state.schedules.get(command.name)
    if schedule is None:
        return no_schedule(command.name)
    if command.from_wall <= schedule.last_wall:
        return Accepted((), None)
    if not 0 < command.count <= LARGEST or not command.why:
        return Refused(Reason.INVALID, "instants are skipped by number and for a reason")
    if command.until_wall < command.from_wall:
        return Refused(Reason.INVALID, "instants are skipped in their order")
    refused = _out_of_turn(schedule, command.from_wall, command.next_wall, command.until_wall)
    if refused is not None:
        return refused
    skipped = e.ScheduleSkipped(
        name=schedule.name,
        from_wall=command.from_wall,
        until_wall=command.until_wall,
        count=command.count,
        why=command.why,
        next_wall=command.next_wall,
    )
    return Accepted((skipped,))


def backfill(state: State, command: s.BackfillSchedule, now: Instant) -> Decision:
    """All of them in one record; the answer is the ids of the runs that were not known yet."""
    schedule = state.schedules.get(command.name)
    if schedule is None:
        return no_schedule(command.name)
    if len(command.moments) > BACKFILL_MAX:
        told = f"more than {BACKFILL_MAX} runs at once; name a shorter span"
        return Refused(Reason.TOO_LARGE, told)
    walls = [moment.at_wall for moment in command.moments]
    if walls != sorted(dict.fromkeys(walls)) or any(not 0 < wall <= LARGEST for wall in walls):
        return Refused(Reason.INVALID, "instants come in their order, each once")
    events: list[e.AnyEvent] = []
    ids: list[JobId] = []
    number = state.next_job
    for moment in command.moments:
        key = run_key(schedule.name, moment.at_wall)
        request = _submission(schedule.definition, key, moment.stamp)
        job_id = JobId(str(number + len(ids)))
        decision = submit(state, structs.replace(request, job_id=job_id), now)
        if isinstance(decision, Refused) and decision.code not in (Reason.GONE, Reason.KEY_REUSED):
            return decision
        if isinstance(decision, Refused) or not decision.events:
            continue
        ids.append(job_id)
        fired = e.ScheduleFired(
            name=schedule.name,
            at_wall=moment.at_wall,
            next_wall=schedule.next_wall,
            job_id=job_id,
            cause=BACKFILL,
        )
        events.extend((*decision.events, fired))
    return Accepted(tuple(events), tuple(ids))


def no_schedule(name: str) -> Refused:
    told = f"there is no schedule {name}; `holdfast schedule list` has them all"
    return Refused(Reason.NOT_FOUND, told)


def labelled(name: str, definition: Definition) -> Definition:
    """The definition with its runs marked as those of this schedule."""
    spec = definition.spec
    labels = tuple(sorted({**dict(spec.labels), LABEL: name}.items()))
    return structs.replace(definition, spec=structs.replace(spec, labels=labels))


def _submission(definition: Definition, key: str, stamp: bytes) -> c.SubmitJob:
    return c.SubmitJob(
        spec=definition.spec,
        key=key,
        items=tuple(stamped(item, stamp) for item in definition.items),
        count=definition.count,
        shared=stamped(definition.shared, stamp),
    )


def _skipped(command: s.FireSchedule, why: str) -> e.ScheduleSkipped:
    return e.ScheduleSkipped(
        name=command.name,
        from_wall=command.at_wall,
        until_wall=command.at_wall,
        count=1,
        why=why,
        next_wall=command.next_wall,
    )


def _out_of_turn(
    schedule: Schedule, instant: Instant, next_wall: Instant, last: Instant = NEVER
) -> Refused | None:
    if schedule.paused:
        return Refused(Reason.INVALID_TRANSITION, f"schedule {schedule.name} is paused")
    if instant != schedule.next_wall or not _follows(next_wall, last or instant):
        told = f"schedule {schedule.name} comes next at {schedule.next_wall}, not at {instant}"
        return Refused(Reason.INVALID, told)
    return None


def _follows(next_wall: Instant, instant: Instant) -> bool:
    return next_wall == NEVER or instant < next_wall <= LARGEST


def _problem(command: s.SetSchedule) -> str:
    """What is wrong with a schedule, in words; empty when nothing is."""
    definition, name = command.definition, command.name
    if not 0 < len(name) <= NAME_MAX or not name.isprintable():
        return f"a schedule called {name[:20]!r}"
    if definition.missed not in MISSED:
        return f"missed={definition.missed!r} is none of {', '.join(MISSED)}"
    if definition.overlap not in OVERLAPS:
        return f"overlap={definition.overlap!r} is none of {', '.join(OVERLAPS)}"
    if not 0 < command.next_wall <= LARGEST:
        return f"schedule {name} would never come"
    if definition.spec.service.restarts:
        return "a schedule begins work that ends; a service is submitted once"
    return _mistimed(definition.timing)


def _mistimed(timing: Timing) -> str:
    if bool(timing.cron) == bool(timing.every_ms):
        return "a schedule has either a cron expression or an interval"
    if len(timing.cron) > CRON_CHARACTERS_MAX or not timing.zone:
        return "a cron expression is short and is read in a time zone"
    if timing.every_ms and not SHORTEST_MS <= timing.every_ms <= LARGEST:
        return f"an interval of {timing.every_ms} ms; the shortest is {SHORTEST_MS} ms"
    return ""

"""The state as plain values, and back: what a snapshot holds and what a fingerprint covers.

Only authority is written. Indexes are rebuilt on the way back, so a snapshot cannot disagree with
the records it was made from, and two states with equal authority have equal fingerprints.
"""

from array import array
from collections.abc import Iterator
from hashlib import blake2b
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.apply_jobs import offer
from holdfast.core.circuit import Circuit
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.job import Job, first_fresh, is_finished
from holdfast.core.lineage import Ancestor
from holdfast.core.operation import Operation
from holdfast.core.owed import Stored
from holdfast.core.ready import is_begun, put_back
from holdfast.core.resource import Resource
from holdfast.core.schedule import Schedule
from holdfast.core.service import Falls, Service
from holdfast.core.sound import Unsound, flaws_of, is_plausible, strange_states
from holdfast.core.spec import NOT_A_SERVICE, JobSpec
from holdfast.core.state import Limit, Request, State, SubmitKey, Token
from holdfast.core.task import FRESH, Task, TaskState
from holdfast.core.ties import tie
from holdfast.core.unreadable import UNREADABLE

FREEZE_VERSION = 2

_ALWAYS = 23
"""So many fields are always written. A field that was added later is left out, with those behind
it, while it holds its default: a state that has nothing new keeps the fingerprint it had."""


class FrozenState(
    Struct, frozen=True, array_like=True, forbid_unknown_fields=True
):
    """All authority there is, and nothing that follows from it.

    Jobs are read straight into the objects that live on, because a million of them come back at a
    restart. What most of them lack stands apart: `columns` for those with finished tasks, `tasks`
    for those with tasks under way. `spec_of` has a place in `specs` for each job.
    """

    version: int
    log_id: str
    epoch: int
    position: Position
    time: Instant
    next_lease: LeaseId
    next_job: int
    snapshot_position: Position
    specs: list[JobSpec]
    spec_of: bytes
    jobs: list[Job]
    columns: list[tuple[JobId, bytes, bytes]]
    tasks: list[Task]
    keys: list[tuple[str, JobId, bytes, Instant]]
    requests: list[tuple[str, bytes, Position, Instant]]
    tokens: list[Token]
    cordoned: dict[WorkerId, str]
    paused: dict[str, str]
    limits: list[tuple[str, str, Limit]] = []
    schedules: list[Schedule] = []
    stored: list[tuple[JobId, Index, Stored]] = []
    circuits: list[Circuit] = []
    retries_away: list[tuple[JobId, list[Instant]]] = []
    lineage: tuple[Ancestor, ...] = ()
    suspended: str = ""
    operations: list[Operation] = []
    resources: list[Resource] = []
    services: list[Service] = []
    falls: Falls = {}


class Versioned(Struct, array_like=True):
    """What a snapshot of any version opens with."""

    version: int


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(FrozenState)
_JOB_FIELDS = Job.__struct_fields__[: Job.__struct_fields__.index("spec")]
_row_of = attrgetter(*_JOB_FIELDS)
_SHORT = _JOB_FIELDS.index("shared")
_plain_spec = attrgetter(*JobSpec.__struct_fields__[: JobSpec.__struct_fields__.index("service")])
_UNTIED = _JOB_FIELDS.index("after")
_blank = Job(
    job_id=JobId(""),
    position=Position(0),
    created_at=NEVER,
    updated_at=NEVER,
    states=bytearray(),
    payloads=None,
)
_times_of = attrgetter("times_out_at", "schedule_by", "deadline_wall", "not_before_wall")
_NO_TIMES = _times_of(_blank)
_odds_of = attrgetter("blocked", "parent", "tasks", "times_out_at", "schedule_by",
                      "deadline_wall", "not_before_wall", "sealed")  # fmt: skip
_NO_ODDS = (*_odds_of(_blank)[:-1], True)
_REST = _row_of(_blank)[_SHORT:]
_NO_TIES = _row_of(_blank)[_UNTIED:]


def freeze(state: State) -> bytes:
    specs: dict[JobSpec, int] = {}
    spec_of = array("I")
    rows: list[tuple[Any, ...]] = []
    columns: list[tuple[JobId, bytes, bytes]] = []
    tasks: list[Task] = []
    for job in state.jobs.values():
        spec_of.append(specs.setdefault(job.spec, len(specs)))
        row = _row_of(job)
        if row[_UNTIED:] == _NO_TIES:
            row = row[: _SHORT if row[_SHORT:] == _REST else _UNTIED]
        rows.append(row)
        if job.attempts is not None and job.ends is not None:
            attempts, ends = array("I", job.attempts), array("Q", job.ends)
            columns.append((job.job_id, attempts.tobytes(), ends.tobytes()))
        if job.tasks:
            tasks.extend(job.tasks[index] for index in sorted(job.tasks))
    frozen: tuple[Any, ...] = (
        FREEZE_VERSION,
        state.log_id,
        state.epoch,
        state.position,
        state.time,
        state.next_lease,
        state.next_job,
        state.snapshot_position,
        list(map(_spec_row, specs)),
        spec_of.tobytes(),
        rows,
        columns,
        tasks,
        [(name, key.job_id, key.digest, key.since) for name, key in state.keys.items()],
        [(name, r.digest, r.position, r.since) for name, r in state.requests.items()],
        list(state.tokens.values()),
        state.cordoned,
        state.paused,
        [(scope, name, limit) for (scope, name), limit in state.limits.items()],
        list(state.schedules.values()),
        [
            (job_id, index, stored)
            for job_id in sorted(state.storing)
            for index, stored in sorted((state.jobs[job_id].stored or {}).items())
        ],
        [state.circuits[key] for key in sorted(state.circuits)],
        sorted(state.retries_away.items()),
        state.lineage,
        state.suspended,
        list(state.operations.values()),
        list(state.resources.values()),
        [job.service for job in state.jobs.values() if job.service is not None],
        state.falls,
    )
    return _encoder.encode(_without_defaults(frozen))


def _spec_row(spec: JobSpec) -> tuple[Any, ...] | JobSpec:
    """A spec as it was written before there were services, where it is that of none."""
    return _plain_spec(spec) if spec.service == NOT_A_SERVICE else spec


def _without_defaults(frozen: tuple[Any, ...]) -> tuple[Any, ...]:
    count = len(frozen)
    while count > _ALWAYS and not frozen[count - 1]:
        count -= 1
    return frozen[:count]


def thaw(data: bytes) -> State:
    frozen = _decode(data)
    state = State()
    state.log_id = frozen.log_id
    state.epoch = frozen.epoch
    state.position = frozen.position
    state.time = frozen.time
    state.next_lease = frozen.next_lease
    state.next_job = frozen.next_job
    state.snapshot_position = frozen.snapshot_position
    _take_sound(state, frozen)
    for name, job_id, digest, since in frozen.keys:
        state.keys[name] = SubmitKey(job_id, digest, since)
    for name, digest, position, since in frozen.requests:
        state.requests[name] = Request(digest, position, since)
    state.tokens = {token.token_id: token for token in frozen.tokens}
    state.cordoned, state.paused = frozen.cordoned, frozen.paused
    state.limits = {(scope, name): limit for scope, name, limit in frozen.limits}
    state.schedules = {schedule.name: schedule for schedule in frozen.schedules}
    state.circuits = {circuit.key: circuit for circuit in frozen.circuits}
    state.retries_away = dict(frozen.retries_away)
    state.lineage, state.suspended = frozen.lineage, frozen.suspended
    state.operations = {known.operation_id: known for known in frozen.operations}
    state.resources = {known.key: known for known in frozen.resources}
    state.falls = frozen.falls
    _build_indexes(state)
    return state


def _take_sound(state: State, frozen: FrozenState) -> None:
    """The jobs, where they could ever have been: whole bytes may still hold what cannot be."""
    trouble: Exception | None = None
    try:
        _take_jobs(state, frozen)
        if is_plausible(state.jobs, len(frozen.jobs), frozen.tasks, frozen.next_lease):
            return
    except (LookupError, ValueError) as error:
        trouble = error
    found = flaws_of(frozen.jobs, frozen.columns, frozen.tasks, frozen.next_lease)
    raise Unsound(found or [f"a job that cannot be: {trouble!r}"]) from trouble


def _decode(data: bytes) -> FrozenState:
    try:
        frozen = _decoder.decode(data)
    except UNREADABLE as error:
        strange = strange_states(data)
        if strange:
            raise Unsound(strange) from error
        raise BrokenInvariant(_why_unreadable(data, error)) from error
    if frozen.version != FREEZE_VERSION:
        raise BrokenInvariant(_of_version(frozen.version))
    return frozen


def _why_unreadable(data: bytes, error: Exception) -> str:
    """Another version has another shape: say so rather than where the shapes part."""
    try:
        version = msgspec.msgpack.decode(data, type=Versioned).version
    except UNREADABLE:
        version = FREEZE_VERSION
    if version != FREEZE_VERSION:
        return _of_version(version)
    return f"a snapshot cannot be read: {error}"


def _of_version(version: int) -> str:
    return f"a snapshot is of version {version}; this release reads version {FREEZE_VERSION}"


def _take_jobs(state: State, frozen: FrozenState) -> None:
    places = array("I", frozen.spec_of)
    jobs, specs = state.jobs, frozen.specs
    for job, place in zip(frozen.jobs, places, strict=True):
        job.spec = specs[place]
        jobs[job.job_id] = job
    for job_id, attempts, ends in frozen.columns:
        job = jobs[job_id]
        job.attempts, job.ends = array("I", attempts), array("Q", ends)
    for task in frozen.tasks:
        job = jobs[task.job_id]
        # One object for the job's name, however many tasks carry it.
        task.job_id = job.job_id
        if job.tasks is None:
            job.tasks = {}
        job.tasks[task.index] = task
    for service in frozen.services:
        jobs[service.job_id].service = service
    for job_id, index, stored in frozen.stored:
        state.remember_stored(jobs[job_id], index, stored)


def fingerprint(state: State) -> str:
    """Equal for equal authority, in any process, under any hash seed."""
    return fingerprint_of(freeze(state))


def fingerprint_of(frozen: bytes) -> str:
    """The fingerprint of a state as whoever froze it saw it, perhaps a former release."""
    return blake2b(frozen, digest_size=16).hexdigest()


def _build_indexes(state: State) -> None:
    """Everything derived, made from the jobs and tasks of a state that has no index yet."""
    state.ready.offer_all(_indexed(state))
    finished = [job for job in state.jobs.values() if not job.unfinished and is_finished(job)]
    finished.sort(key=lambda job: job.updated_at)
    state.finished.extend(job.job_id for job in finished)
    for schedule in state.schedules.values():
        state.set_schedule_timer(schedule)
    records = [job.tasks.values() for job in state.jobs.values() if job.tasks]
    owing = [task for tasks in records for task in tasks if task.owed]
    for task in sorted(owing, key=lambda task: (task.committed, task.job_id, task.index)):
        state.debts.add(task)


def _indexed(state: State) -> Iterator[Job]:
    """Index job after job, and hand out those with fresh tasks to lease: in their order, between
    those that the indexing of a task put in line."""
    now = state.time
    for job in state.jobs.values():
        # Of a million jobs nearly all have nothing but fresh tasks: one look tells.
        if _odds_of(job) != _NO_ODDS:
            _index_odds(state, job)
        if job.states and job.states[0] != FRESH:
            job.cursor = first_fresh(job, 0)
        if job.cursor < len(job.states):
            if is_begun(job, now):
                yield job
            else:
                offer(state, job, now)


def _index_odds(state: State, job: Job) -> None:
    """What a job has beside fresh tasks and results."""
    if not job.sealed:
        state.open_jobs[job.job_id] = None
    if _times_of(job) != _NO_TIMES:
        _index_times(state, job)
    if job.blocked or job.parent:
        tie(state, job)
    for task in (job.tasks or {}).values():
        _index_task(state, job, task)


def _index_times(state: State, job: Job) -> None:
    state.set_timer(job, job.times_out_at)
    state.set_timer(job, job.schedule_by)
    state.set_wall_timer(job, job.deadline_wall)
    state.set_wall_timer(job, job.not_before_wall)


def _index_task(state: State, job: Job, task: Task) -> None:
    if task.lease_id:
        state.holder(task.worker, task.incarnation).add(task)
        for endpoint in task.endpoints:
            state.endpoints.setdefault(endpoint.name, {})[task.lease_id] = task
    elif task.state is TaskState.WAITING:
        if task.not_before_wall != NEVER:
            state.set_wall_timer(job, task.not_before_wall)
        put_back(state.ready, job, task, state.time)

"""The state as plain values, and back: what a snapshot holds and what a fingerprint covers.

Only authority is written. Indexes are rebuilt on the way back, so a snapshot cannot disagree with
the records it was made from, and two states with equal authority have equal fingerprints.
"""

from array import array
from collections import deque
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.apply_jobs import offer
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId, Position
from holdfast.core.job import Job, first_fresh, is_finished
from holdfast.core.ready import ReadyQueue, put_back
from holdfast.core.spec import JobSpec
from holdfast.core.state import State, SubmitKey
from holdfast.core.task import Task, TaskState

FREEZE_VERSION = 1


class FrozenJob(Struct, frozen=True, array_like=True):
    """A job without its indexes. `spec` is a place in the snapshot's table of specs."""

    job_id: JobId
    spec: int
    position: Position
    created_at: Instant
    updated_at: Instant
    states: bytes
    payloads: list[bytes | None] | None
    shared: bytes
    key: str
    digest: bytes
    unfinished: int
    active: int
    quarantined: int
    generation: int
    ever_started: bool
    sealed: bool
    interrupted: bool
    cause: str
    times: tuple[int, int, int, int, int]
    chunks: tuple[tuple[Index, Position], ...]
    tasks: list[list[Any]]
    attempts: bytes
    ends: bytes


class FrozenState(Struct, frozen=True, array_like=True):
    """All authority there is, and nothing that follows from it."""

    version: int
    log_id: str
    epoch: int
    position: Position
    time: Instant
    next_lease: LeaseId
    next_job: int
    snapshot_position: Position
    specs: list[JobSpec]
    jobs: list[FrozenJob]
    keys: list[tuple[str, JobId, bytes, Instant]]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(FrozenState)
_TASK_FIELDS = Task.__struct_fields__


def freeze(state: State) -> bytes:
    specs: dict[JobSpec, int] = {}
    jobs = [_freeze_job(job, specs) for job in state.jobs.values()]
    frozen = FrozenState(
        version=FREEZE_VERSION,
        log_id=state.log_id,
        epoch=state.epoch,
        position=state.position,
        time=state.time,
        next_lease=state.next_lease,
        next_job=state.next_job,
        snapshot_position=state.snapshot_position,
        specs=list(specs),
        jobs=jobs,
        keys=[(name, key.job_id, key.digest, key.since) for name, key in state.keys.items()],
    )
    return _encoder.encode(frozen)


def thaw(data: bytes) -> State:
    try:
        frozen = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise BrokenInvariant(f"a snapshot cannot be read: {error}") from error
    if frozen.version != FREEZE_VERSION:
        raise BrokenInvariant(f"a snapshot is of version {frozen.version}; this is another")
    state = State()
    state.log_id = frozen.log_id
    state.epoch = frozen.epoch
    state.position = frozen.position
    state.time = frozen.time
    state.next_lease = frozen.next_lease
    state.next_job = frozen.next_job
    state.snapshot_position = frozen.snapshot_position
    try:
        for row in frozen.jobs:
            state.jobs[row.job_id] = _thaw_job(row, frozen.specs[row.spec])
    except (msgspec.ValidationError, IndexError, ValueError) as error:
        raise BrokenInvariant(f"a snapshot holds a job that cannot be: {error}") from error
    for name, job_id, digest, since in frozen.keys:
        state.keys[name] = SubmitKey(job_id, digest, since)
    rebuild_indexes(state)
    return state


def fingerprint(state: State) -> str:
    """Equal for equal authority, in any process, under any hash seed."""
    return blake2b(freeze(state), digest_size=16).hexdigest()


def rebuild_indexes(state: State) -> None:
    """Everything derived, made anew from the jobs and their tasks."""
    fresh = State()
    state.holders, state.open_jobs = fresh.holders, fresh.open_jobs
    state.ready = ReadyQueue(state.jobs)
    state.finished, state.timers, state.wall_timers = deque(), [], []
    for job in state.jobs.values():
        job.queued, job.due, job.later = False, None, None
        job.cursor = first_fresh(job, 0)
        if not job.sealed:
            state.open_jobs[job.job_id] = None
        for at in (job.times_out_at, job.schedule_by):
            state.set_timer(job, at)
        for wall in (job.deadline_wall, job.not_before_wall):
            state.set_wall_timer(job, wall)
        for task in (job.tasks or {}).values():
            _index_task(state, job, task)
        offer(state, job, state.time)
    finished = [job for job in state.jobs.values() if is_finished(job)]
    finished.sort(key=lambda job: job.updated_at)
    state.finished.extend(job.job_id for job in finished)


def _index_task(state: State, job: Job, task: Task) -> None:
    if task.lease_id:
        state.holder(task.worker, task.incarnation).add(task)
    elif task.state is TaskState.WAITING:
        if task.not_before_wall != NEVER:
            state.set_wall_timer(job, task.not_before_wall)
        put_back(state.ready, job, task, state.time)


def _freeze_job(job: Job, specs: dict[JobSpec, int]) -> FrozenJob:
    tasks = [] if job.tasks is None else [job.tasks[index] for index in sorted(job.tasks)]
    return FrozenJob(
        job_id=job.job_id,
        spec=specs.setdefault(job.spec, len(specs)),
        position=job.position,
        created_at=job.created_at,
        updated_at=job.updated_at,
        states=bytes(job.states),
        payloads=job.payloads,
        shared=job.shared,
        key=job.key,
        digest=job.digest,
        unfinished=job.unfinished,
        active=job.active,
        quarantined=job.quarantined,
        generation=job.generation,
        ever_started=job.ever_started,
        sealed=job.sealed,
        interrupted=job.interrupted,
        cause=job.cause,
        times=(
            job.not_before,
            job.not_before_wall,
            job.times_out_at,
            job.deadline_wall,
            job.schedule_by,
        ),
        chunks=job.chunks,
        tasks=[[getattr(task, field) for field in _TASK_FIELDS[1:]] for task in tasks],
        attempts=b"" if job.attempts is None else job.attempts.tobytes(),
        ends=b"" if job.ends is None else job.ends.tobytes(),
    )


def _thaw_job(row: FrozenJob, spec: JobSpec) -> Job:
    job = Job(
        job_id=row.job_id,
        spec=spec,
        position=row.position,
        created_at=row.created_at,
        updated_at=row.updated_at,
        states=bytearray(row.states),
        payloads=row.payloads,
        shared=row.shared,
        key=row.key,
        digest=row.digest,
        unfinished=row.unfinished,
        active=row.active,
        quarantined=row.quarantined,
        generation=row.generation,
        ever_started=row.ever_started,
        sealed=row.sealed,
        interrupted=row.interrupted,
        cause=row.cause,
        not_before=Instant(row.times[0]),
        not_before_wall=Instant(row.times[1]),
        times_out_at=Instant(row.times[2]),
        deadline_wall=Instant(row.times[3]),
        schedule_by=Instant(row.times[4]),
        chunks=row.chunks,
    )
    if row.tasks:
        job.tasks = {}
        for values in row.tasks:
            task: Task = msgspec.convert(
                dict(zip(_TASK_FIELDS, [row.job_id, *values], strict=True)), Task
            )
            # One object for the job's name, however many tasks carry it.
            task.job_id = job.job_id
            job.tasks[task.index] = task
    if row.attempts:
        job.attempts, job.ends = array("I"), array("Q")
        job.attempts.frombytes(row.attempts)
        job.ends.frombytes(row.ends)
    return job

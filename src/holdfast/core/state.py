"""Everything that is true, and the indexes that can be rebuilt from it. The one mutable object.

Events are folded in through `apply`, by live traffic and replay alike, so that a restart cannot
disagree with the process it replaces.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappush

from msgspec import Struct

from holdfast.core.circuit import Circuit, CircuitKey
from holdfast.core.debts import Debts
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import NEVER, NOWHERE, Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.job import Job
from holdfast.core.lease import Holder
from holdfast.core.lineage import Ancestor, log_at
from holdfast.core.operation import Operation
from holdfast.core.owed import Stored
from holdfast.core.ready import ReadyQueue
from holdfast.core.resource import Resource, ResourceKey
from holdfast.core.schedule import Schedule
from holdfast.core.service import Falls
from holdfast.core.spec import JobSpec
from holdfast.core.task import Task

REMEMBERED_SPECS = 256


class SubmitKey(Struct, gc=False):
    """A name under which a user submitted: a repeat finds the job instead of making another."""

    job_id: JobId
    digest: bytes
    since: Instant


class Token(Struct, frozen=True, gc=False):
    """Who may ask for what, known by the digest of a secret."""

    token_id: str
    name: str
    digest: bytes
    scopes: tuple[str, ...]
    worker: str
    issued_at: Instant
    expires_wall: Instant


class Request(Struct, frozen=True, gc=False):
    """A request that was answered by the record at `position`, should it be repeated."""

    digest: bytes
    position: Position
    since: Instant


class Limit(Struct, frozen=True, array_like=True, gc=False):
    """How much a namespace, a user or a key may have running, and start in a while; zero: no bound.
    `weight` is a namespace's part in fair shares. `amounts` is how much of a resource its tasks
    may take together, counted as their specs count it: `cpus` and named resources in thousandths,
    `memory` in bytes, `gpus`."""

    running: int = 0
    starts: int = 0
    per_ms: int = 0
    weight: int = 1
    amounts: tuple[tuple[str, int], ...] = ()


class State:
    """`position` and `time` are those of the last record applied.

    Authority: jobs (with their tasks), keys, requests, tokens, cordoned, paused, limits,
    schedules, circuits, operations, retries_away, resources, falls, next_lease, next_job, epoch,
    log_id, lineage, suspended and snapshot_position. While `suspended` says why, nothing is given
    out.
    Index: endpoints, holders, ready, finished, open_jobs, timers, wall_timers, schedule_timers,
    spec_cache, and the ties between jobs: `dependents` has the blocked jobs that wait for a job,
    `awaited` those that wait for a task of it, `children` those that will end with it, and
    `unsettled` whoever must be judged again because something it is tied to has ended. `debts` is
    what commits owe, and `storing` names the jobs with results in the store.
    """

    def __init__(self) -> None:
        self.log_id = ""
        self.lineage: tuple[Ancestor, ...] = ()
        self.suspended = ""
        self.epoch = 0
        self.position: Position = NOWHERE
        self.time: Instant = NEVER
        self.next_lease: LeaseId = LeaseId(1)
        self.next_job = 1
        self.snapshot_position: Position = NOWHERE
        self.jobs: dict[JobId, Job] = {}
        self.keys: dict[str, SubmitKey] = {}
        self.requests: dict[str, Request] = {}
        self.tokens: dict[str, Token] = {}
        self.cordoned: dict[WorkerId, str] = {}
        self.paused: dict[str, str] = {}
        self.limits: dict[tuple[str, str], Limit] = {}
        self.schedules: dict[str, Schedule] = {}
        self.circuits: dict[CircuitKey, Circuit] = {}
        self.operations: dict[str, Operation] = {}
        self.retries_away: dict[JobId, list[Instant]] = {}
        self.resources: dict[ResourceKey, Resource] = {}
        self.falls: Falls = {}

        self.endpoints: dict[str, dict[LeaseId, Task]] = {}
        self.holders: dict[tuple[WorkerId, int], Holder] = {}
        self.ready = ReadyQueue()
        self.open_jobs: dict[JobId, None] = {}
        self.finished: deque[JobId] = deque()
        self.timers: list[tuple[Instant, JobId]] = []
        self.wall_timers: list[tuple[Instant, JobId]] = []
        self.schedule_timers: list[tuple[Instant, str]] = []
        self.spec_cache: dict[JobSpec, JobSpec] = {}
        self.dependents: dict[JobId, dict[JobId, None]] = {}
        self.awaited: dict[JobId, dict[Index, dict[JobId, None]]] = {}
        self.children: dict[JobId, dict[JobId, None]] = {}
        self.unsettled: dict[JobId, None] = {}
        self.debts = Debts()
        self.storing: dict[JobId, None] = {}

    def job_of(self, job_id: JobId) -> Job:
        """The job an event names. History never names one that is not there."""
        job = self.jobs.get(job_id)
        if job is None:
            raise BrokenInvariant(f"an event names job {job_id}, which does not exist")
        return job

    def log_at(self, position: Position) -> str:
        """The log that wrote this position: what an effect committed there is known by."""
        return log_at(self.log_id, self.lineage, position)

    def holder(self, worker: WorkerId, incarnation: int) -> Holder:
        key = (worker, incarnation)
        holder = self.holders.get(key)
        if holder is None:
            holder = self.holders[key] = Holder(worker, incarnation, {}, {})
        return holder

    def remember_stored(self, job: Job, index: Index, stored: Stored) -> None:
        """The task's result lies in the store, as long as the job is kept."""
        if job.stored is None:
            job.stored = {}
        job.stored[index] = stored
        self.storing[job.job_id] = None

    def stored_results(self) -> Iterator[Stored]:
        """Everything in the store that a kept job refers to."""
        for job_id in self.storing:
            yield from (self.jobs[job_id].stored or {}).values()

    def drop_endpoint(self, name: str, lease_id: LeaseId) -> None:
        leases = self.endpoints[name]
        del leases[lease_id]
        if not leases:
            del self.endpoints[name]

    def set_timer(self, job: Job, at: Instant) -> None:
        """Have the tick look at the job at log time `at`."""
        if at != NEVER:
            heappush(self.timers, (at, job.job_id))

    def set_wall_timer(self, job: Job, wall: Instant) -> None:
        """Have the tick look at the job when the wall clock shows `wall`."""
        if wall != NEVER:
            heappush(self.wall_timers, (wall, job.job_id))

    def set_schedule_timer(self, schedule: Schedule) -> None:
        """Have the clockwork look at the schedule when the wall clock shows its next instant."""
        if schedule.next_wall != NEVER and not schedule.paused:
            heappush(self.schedule_timers, (schedule.next_wall, schedule.name))

    def shared_spec(self, spec: JobSpec) -> JobSpec:
        """One object for equal specs, so that a million small jobs share one."""
        known = self.spec_cache.get(spec)
        if known is not None:
            return known
        if len(self.spec_cache) >= REMEMBERED_SPECS:
            self.spec_cache.pop(next(iter(self.spec_cache)))
        self.spec_cache[spec] = spec
        return spec

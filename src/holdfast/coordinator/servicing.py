"""What workers say about the services they run: how each replica stands, what it takes, and what
it tells of its partitions.

Kept in memory and safe to lose: after a restart every worker is asked who it is and tells it again.
What is recorded is where a replica can be reached: its endpoint comes when it is ready, goes when
it is not, and never outlives its lease.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.gridviews import GridViews
from holdfast.coordinator.seats import Worker
from holdfast.coordinator.views import View, Wall, replica_view, rfc3339
from holdfast.core import commands as c
from holdfast.core.ids import Index, Instant, JobId, LeaseId, WorkerId
from holdfast.core.job import Job
from holdfast.core.service import service_name
from holdfast.core.task import Task
from holdfast.wire.exchange import Exchange
from holdfast.wire.servicing import READY, PartitionNews, Sample, ServiceNews

SAMPLES_KEPT: Final = 24
"""Of each replica: two minutes of them, where one comes every five seconds."""


class ReplicaStanding(Struct, frozen=True):
    """How a replica stands as its worker told it last, and since when it does."""

    news: ServiceNews
    since: Instant

    @property
    def is_ready(self) -> bool:
        return self.news.state == READY

    @property
    def told(self) -> str:
        """In words: what it is, and where or why."""
        if self.is_ready and self.news.address:
            return f"ready at {self.news.address}"
        return f"{self.news.state}: {self.news.why}" if self.news.why else self.news.state


class Tenant(Struct, frozen=True):
    """Whose lease it is."""

    job_id: JobId
    index: Index


class Sampled(Struct, frozen=True):
    """What a replica took at an instant of log time."""

    sample: Sample
    at: Instant


def _nobody(job_id: JobId) -> None:
    """Nobody has to know."""


class Servicing:
    """`on_change` is told of every job of which a replica stands otherwise than before. `tell` has
    a worker answered soon."""

    def __init__(
        self,
        coordinator: Coordinator,
        workers: Mapping[WorkerId, Worker],
        tell: Callable[[Worker], None],
    ) -> None:
        self.on_change: Callable[[JobId], None] = _nobody
        self.grid_views = GridViews()
        self._coordinator = coordinator
        self._workers = workers
        self._tell = tell
        self._standing: dict[LeaseId, ReplicaStanding] = {}
        self._samples: dict[LeaseId, deque[Sampled]] = {}
        self._tenants: dict[LeaseId, Tenant] = {}
        # The jobs whose replicas are to read their own metrics, and who is still to be told so.
        self._scraped: dict[JobId, None] = {}
        self._owed: dict[WorkerId, list[LeaseId]] = {}

    def take(self, worker: Worker, exchange: Exchange) -> None:
        """What a message says about services, after what it reports was judged."""
        if exchange.services:
            self._hear(worker, exchange.services)
        if exchange.samples:
            self._note(worker, exchange.samples)
        if exchange.partitions:
            self._picture(worker, exchange.partitions)

    def _hear(self, worker: Worker, told: Iterable[ServiceNews]) -> None:
        """How replicas stand. What is not held there any more, or is no service, says nothing."""
        now = self._coordinator.now()
        for news in told:
            task = self._held(worker, news.lease_id)
            if task is None:
                continue
            known = self._standing.get(news.lease_id)
            if known is None or known.news != news:
                is_same = known is not None and known.news.state == news.state
                since = known.since if known is not None and is_same else now
                self._standing[news.lease_id] = ReplicaStanding(news, since)
            self._follow(task, news)
            if known is None or known.news != news:
                self.on_change(task.job_id)

    def _note(self, worker: Worker, told: Iterable[Sample]) -> None:
        """What replicas take."""
        now = self._coordinator.now()
        for sample in told:
            if self._held(worker, sample.lease_id) is not None:
                kept = self._samples.setdefault(sample.lease_id, deque(maxlen=SAMPLES_KEPT))
                kept.append(Sampled(sample, Instant(max(now - max(sample.ago_ms, 0), 1))))

    def _picture(self, worker: Worker, told: Iterable[PartitionNews]) -> None:
        """How partitions stand where members of data grids see them."""
        now = self._coordinator.now()
        for news in told:
            task = self._held(worker, news.lease_id)
            if task is not None and self.grid_views.take(news, now):
                self.on_change(task.job_id)

    def standing(self, lease_id: LeaseId) -> ReplicaStanding | None:
        """How the replica under this lease stands, as far as its worker has said."""
        return self._standing.get(lease_id)

    def samples(self, lease_id: LeaseId) -> tuple[Sampled, ...]:
        """The latest samples of a replica, the oldest first."""
        return tuple(self._samples.get(lease_id, ()))

    def scrape(self, job_id: JobId) -> None:
        """Have the replicas of a service, also those to come, read their own metrics. Forgotten
        with this process: whoever wants them says so again."""
        if job_id in self._scraped:
            return
        self._scraped[job_id] = None
        job = self._coordinator.state.jobs.get(job_id)
        for task in (job.tasks or {}).values() if job is not None else ():
            if task.lease_id:
                self._owed.setdefault(task.worker, []).append(task.lease_id)
                if task.worker in self._workers:
                    self._tell(self._workers[task.worker])

    def is_scraped(self, job_id: JobId) -> bool:
        return job_id in self._scraped

    def orders(self, worker: Worker) -> tuple[LeaseId, ...]:
        """The replicas there whose metrics are to be read and that it was not told of yet, those
        that it is given with this answer included."""
        if not self._scraped:
            return ()
        given = [run for run in worker.runs if run.job_id in self._scraped]
        new = (item.lease_id for run in given for item in run.items)
        return tuple(dict.fromkeys((*self._owed.pop(worker.worker, ()), *new)))

    def sweep(self) -> None:
        """Let go of what is over, and make good what could not be recorded at the time."""
        jobs = self._coordinator.state.jobs
        for lease_id, tenant in list(self._tenants.items()):
            task = self._task(lease_id, tenant)
            standing = self._standing.get(lease_id)
            if task is not None:
                if standing is not None:
                    self._follow(task, standing.news)
                continue
            del self._tenants[lease_id]
            self._standing.pop(lease_id, None)
            self._samples.pop(lease_id, None)
            self.grid_views.forget(lease_id)
        for job_id in [job_id for job_id in self._scraped if job_id not in jobs]:
            del self._scraped[job_id]
        if self._owed:
            # Whoever holds something may still come back to hear of it.
            holding = {holder.worker for holder in self._coordinator.state.holders.values()}
            self._owed = {name: owed for name, owed in self._owed.items() if name in holding}

    def _task(self, lease_id: LeaseId, tenant: Tenant) -> Task | None:
        """The replica, as long as this lease of it lives."""
        job = self._coordinator.state.jobs.get(tenant.job_id)
        task = None if job is None else (job.tasks or {}).get(tenant.index)
        return task if task is not None and task.lease_id == lease_id else None

    def view(self, job: Job, index: Index, wall: Wall) -> View | None:
        """A replica as it is shown: what is recorded of it, and how it stands."""
        recorded = replica_view(job, index, wall)
        task = (job.tasks or {}).get(index)
        standing = None if task is None else self._standing.get(task.lease_id)
        if recorded is None or standing is None:
            return recorded
        return {
            **recorded,
            "state": standing.news.state,
            "why": standing.news.why or None,
            "address": standing.news.address or None,
            "since": rfc3339(wall(standing.since)),
        }

    def _held(self, worker: Worker, lease_id: LeaseId) -> Task | None:
        """The replica that this worker holds under this lease; it is remembered from now on."""
        state = self._coordinator.state
        holder = state.holders.get((worker.worker, worker.incarnation))
        task = None if holder is None else holder.leases.get(lease_id)
        if task is None or state.jobs[task.job_id].service is None:
            return None
        self._tenants[lease_id] = Tenant(task.job_id, task.index)
        return task

    def _follow(self, task: Task, news: ServiceNews) -> None:
        """Where it is reached is recorded exactly while it is ready."""
        name = service_name(self._coordinator.state.jobs[task.job_id].spec)
        known = next((each for each in task.endpoints if each.name == name), None)
        lease: dict[str, Any] = {
            "worker": task.worker, "incarnation": task.incarnation, "job_id": task.job_id,
            "index": task.index, "lease_id": task.lease_id, "name": name,
        }  # fmt: skip
        command: c.Command | None = None
        if news.state != READY or not news.address:
            command = c.RemoveEndpoint(**lease) if known is not None else None
        elif known is None or (known.address, known.metadata) != (news.address, news.ports):
            command = c.RegisterEndpoint(**lease, address=news.address, metadata=news.ports)
        if command is not None:
            self._coordinator.execute(command, actor=f"worker:{task.worker}")

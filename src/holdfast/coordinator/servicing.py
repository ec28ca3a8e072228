"""What workers say about the services they run: how each replica stands, and what it takes.

Kept in memory and safe to lose: after a restart every worker is asked who it is and tells it again.
What is recorded is where a replica can be reached: its endpoint comes when it is ready, goes when
it is not, and never outlives its lease.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.seats import Worker
from holdfast.coordinator.views import View, Wall, replica_view, rfc3339
from holdfast.core import commands as c
from holdfast.core.ids import Index, Instant, JobId, LeaseId, WorkerId
from holdfast.core.job import Job
from holdfast.core.service import service_name
from holdfast.core.task import Task
from holdfast.wire.exchange import Exchange, Failed
from holdfast.wire.servicing import READY, Sample, ServiceNews

ERROR_MOST: Final = 4_096
"""So much of what a worker says about an end is kept; the log has all of it."""

SAMPLES_KEPT: Final = 24
"""Of each replica: two minutes of them, where one comes every five seconds."""


class ReplicaStanding(Struct, frozen=True):
    """How a replica stands as its worker told it last, and since when it does."""

    job_id: JobId
    index: Index
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


class Fall(Struct, frozen=True):
    """How a replica ended by itself the last time, in the words of its worker."""

    error: str
    exit_code: int | None
    at: Instant


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
        self._coordinator = coordinator
        self._workers = workers
        self._tell = tell
        self._standing: dict[LeaseId, ReplicaStanding] = {}
        self._samples: dict[LeaseId, deque[Sampled]] = {}
        self._falls: dict[tuple[JobId, Index], Fall] = {}
        # The jobs whose replicas are to read their own metrics, and those that were told so.
        self._scraped: dict[JobId, None] = {}
        self._ordered: dict[LeaseId, None] = {}

    def take(self, worker: Worker, exchange: Exchange) -> None:
        """What a message says about services, after what it reports was judged."""
        if exchange.failed:
            self._note_falls(exchange.failed)
        if exchange.services:
            self._hear(worker, exchange.services)
        if exchange.samples:
            self._note(worker, exchange.samples)

    def _note_falls(self, told: Iterable[Failed]) -> None:
        now, jobs = self._coordinator.now(), self._coordinator.state.jobs
        for failed in told:
            job = jobs.get(failed.job_id)
            if job is not None and job.service is not None:
                fall = Fall(failed.error[:ERROR_MOST], failed.exit_code, now)
                self._falls[failed.job_id, failed.index] = fall
                self.on_change(failed.job_id)

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
                standing = ReplicaStanding(task.job_id, task.index, news, since)
                self._standing[news.lease_id] = standing
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

    def standing(self, lease_id: LeaseId) -> ReplicaStanding | None:
        """How the replica under this lease stands, as far as its worker has said."""
        return self._standing.get(lease_id)

    def samples(self, lease_id: LeaseId) -> tuple[Sampled, ...]:
        """The latest samples of a replica, the oldest first."""
        return tuple(self._samples.get(lease_id, ()))

    def last_fall(self, job_id: JobId, index: Index) -> Fall | None:
        """How a replica ended by itself the last time, as long as this process remembers; the log
        has it at the end of the task's last attempt."""
        return self._falls.get((job_id, index))

    def still_ending(self, job_id: JobId) -> tuple[LeaseId, ...]:
        """Replicas of a service that are over and that their workers still name: their processes
        have not ended. What was over before this process began is not known here."""
        live = self._live()
        named = self._named()
        return tuple(
            lease_id
            for lease_id, standing in self._standing.items()
            if standing.job_id == job_id and lease_id not in live and lease_id in named
        )

    def scrape(self, job_id: JobId) -> None:
        """Have the replicas of a service, also those to come, read their own metrics. Forgotten
        with this process: whoever wants them says so again."""
        self._scraped[job_id] = None
        job = self._coordinator.state.jobs.get(job_id)
        for task in (job.tasks or {}).values() if job is not None else ():
            worker = self._workers.get(task.worker) if task.lease_id else None
            if worker is not None and task.lease_id not in self._ordered:
                self._tell(worker)

    def is_scraped(self, job_id: JobId) -> bool:
        return job_id in self._scraped

    def orders(self, worker: Worker) -> tuple[LeaseId, ...]:
        """The replicas there whose metrics are to be read and that it was not told of yet."""
        holder = self._coordinator.state.holders.get((worker.worker, worker.incarnation))
        if not self._scraped or holder is None:
            return ()
        found = tuple(
            lease_id
            for lease_id, task in holder.leases.items()
            if task.job_id in self._scraped and lease_id not in self._ordered
        )
        self._ordered.update(dict.fromkeys(found))
        return found

    def sweep(self) -> None:
        """Let go of what is over, and make good what could not be recorded at the time."""
        if not (self._standing or self._samples or self._ordered or self._falls or self._scraped):
            return
        state, live, named = self._coordinator.state, self._live(), self._named()
        self._standing = {k: v for k, v in self._standing.items() if k in live or k in named}
        self._samples = {k: v for k, v in self._samples.items() if k in live}
        self._ordered = {k: v for k, v in self._ordered.items() if k in live}
        self._scraped = {k: v for k, v in self._scraped.items() if k in state.jobs}
        self._falls = {
            (job_id, index): fall for (job_id, index), fall in self._falls.items()
            if (job := state.jobs.get(job_id)) is not None and job.service is not None
            and index in job.service.replicas
        }  # fmt: skip
        for lease_id, standing in self._standing.items():
            if lease_id in live:
                self._follow(live[lease_id], standing.news)

    def _live(self) -> dict[LeaseId, Task]:
        holders = self._coordinator.state.holders.values()
        return {lease: task for holder in holders for lease, task in holder.leases.items()}

    def _named(self) -> set[LeaseId]:
        """The leases that workers name, whether they are over or not."""
        workers = [worker for worker in self._workers.values() if not worker.has_left]
        lingering = {each.lease_id for worker in workers for each in worker.lingering}
        return lingering.union(*(worker.held for worker in workers))

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
        """The replica that this worker holds under this lease."""
        state = self._coordinator.state
        holder = state.holders.get((worker.worker, worker.incarnation))
        task = None if holder is None else holder.leases.get(lease_id)
        return task if task is not None and state.jobs[task.job_id].service is not None else None

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

"""Brings the replicas of a deployment to what it was told to be, one round at a time.

It looks at what there is and never at what it did: each look ends in ordinary commands, whose
effect the next look sees. Nothing it starts can be started twice, since a command that is not in
the log never happened, and one that is shows in the very next look.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.lines import say
from holdfast.coordinator.reconciling.deployment import (
    KIND,
    Memory,
    bound_to,
    encode_memory,
    job_spec,
    label_of,
    memory_of,
    plan_of,
    workload_of,
)
from holdfast.coordinator.reconciling.holdings import Holdings
from holdfast.coordinator.reconciling.leaving import LOOK_MS, Leaving
from holdfast.coordinator.reconciling.replicas import Stood, as_rolled, stood
from holdfast.coordinator.reconciling.sites import ANYWHERE, SEEK_MS, Site, Sites
from holdfast.coordinator.servicing import Servicing
from holdfast.core import commands as c
from holdfast.core import commands_resources as r
from holdfast.core.decision import Decision, Refused
from holdfast.core.ids import NEVER, Index, Instant, JobId, Position
from holdfast.core.job import Job
from holdfast.core.resource import Resource
from holdfast.core.task import TaskState
from holdfast.core.unreadable import UNREADABLE
from holdfast.runtimes.queue import WorkQueue
from holdfast.runtimes.resource import KIND as RUNTIME
from holdfast.runtimes.resource import REVISION_LABEL
from holdfast.runtimes.rollout import Round, next_round
from holdfast.runtimes.status import RolloutProgress
from holdfast.runtimes.workload import Workload

ACTOR: Final = "runtimes"

HELD: Final = frozenset({TaskState.LEASED, TaskState.RUNNING})

LOOKS_A_STEP: Final = 10
"""So many deployments are looked at, and others have their turn."""


class Tended:
    """A deployment, what it should be, and its replicas. `strays` are those that wait for a worker
    which all of the runtime has left; one that still runs elsewhere is replaced like one of an
    older revision."""

    def __init__(
        self,
        resource: Resource,
        workload: Workload,
        jobs: list[Job],
        replicas: tuple[Stood, ...],
        site: Site,
    ) -> None:
        self.resource = resource
        self.site = site
        self.workload = workload
        self.memory: Memory = memory_of(resource)
        self.jobs = jobs
        away = [each for each in replicas if site.worker and each.worker != site.worker]
        self.strays = tuple(each for each in away if each.state not in HELD)
        self.replicas = tuple(
            replace(each, revision="") if each in away else each
            for each in replicas
            if each not in self.strays
        ) if away else replicas

    @property
    def is_adrift(self) -> bool:
        """Whether the worker that it waits for may be gone, or another come: no event says so."""
        waits = any(each.state is TaskState.WAITING for each in self.replicas)
        return bool(self.site.problem) or (bool(self.site.worker) and waits)

    def round(self, leaving: int, now: Instant) -> Round:
        return next_round(
            wanted=self.workload.revision,
            desired=self.workload.replicas,
            replicas=as_rolled(self.replicas, leaving),
            rollout=self.workload.rollout,
            before=self.memory.progress,
            now=now,
        )


class Tender:
    def __init__(
        self,
        coordinator: Coordinator,
        holdings: Holdings,
        servicing: Servicing,
        leaving: Leaving,
        sites: Sites,
    ) -> None:
        self.sites = sites
        self.queue = WorkQueue()
        self.leaving = leaving
        self._coordinator = coordinator
        self._state = coordinator.state
        self._holdings = holdings
        self._servicing = servicing
        self._workloads: dict[str, tuple[bytes, Workload]] = {}
        self._sited: tuple[tuple[str, Position, Instant], Site] | None = None
        for name in holdings.all_names():
            self.queue.add(name)

    def step(self, now: Instant) -> Instant:
        """Look at so many deployments at most; when the next look is due, NEVER for whenever."""
        for _ in range(LOOKS_A_STEP):
            name = self.queue.take(now)
            if name is None:
                break
            try:
                is_well = self._tend(name, now)
            except UNREADABLE as error:
                # Written by a version that knows more than this one: it is left as it is.
                say("deployment_unreadable", deployment=name, why=str(error))
                is_well = False
            if is_well:
                self.queue.done(name)
            else:
                self.queue.failed(name, now)
        return self.queue.next_due(now)

    def look(self, name: str, now: Instant) -> Tended | None:
        """A deployment as it stands; None where nothing is told to be there."""
        resource = self._state.resources.get((KIND, name))
        if resource is None:
            return None
        jobs = self._holdings.jobs(name)
        workload = self._workload(resource)
        is_unasked = not workload.ports and workload.probes.ready is None
        unasked = workload.revision if is_unasked else ""
        replicas = stood(jobs, self._servicing, now, unasked)
        site = self._site(name, now) if workload.workers_most == 1 else ANYWHERE
        return Tended(resource, workload, jobs, replicas, site)

    def _site(self, name: str, now: Instant) -> Site:
        """Where all of the runtime goes that this deployment is of. Whoever looks at all of them
        one after the other is told what was found for the first."""
        owner = self._holdings.owner(name)
        moment = (owner, self._state.position, now)
        if self._sited is not None and self._sited[0] == moment:
            return self._sited[1]
        siblings = tuple(self._holdings.names(owner))
        jobs = [job for each in siblings for job in self._holdings.jobs(each)]
        told = (self._state.resources.get((KIND, each)) for each in siblings)
        wanted = [self._workload(each) for each in told if each is not None]
        site = self.sites.of(owner, jobs, wanted)
        self._sited = (moment, site)
        return site

    def _workload(self, resource: Resource) -> Workload:
        """What it was told to be, read once for each time it was told."""
        known = self._workloads.get(resource.name)
        if known is None or known[0] != resource.spec:
            known = self._workloads[resource.name] = (resource.spec, workload_of(resource))
        return known[1]

    def _tend(self, name: str, now: Instant) -> bool:
        """One round; False where a command was refused, so that it is tried again later."""
        found = self.look(name, now)
        if found is None:
            return self._end(name, now)
        if (RUNTIME, self._holdings.owner(name)) not in self._state.resources:
            # Whoever wanted it is gone: it goes as well.
            return self._did(r.MarkResourceDeleted(kind=KIND, name=name))
        is_well = all(self._did(command) for command in stops_of(found.strays))
        told = found.round(self.leaving.count(name), now)
        is_well = is_well and self._revive(found, name, now) and self._carry_out(found, told, name)
        if is_well and found.workload.rollout.steps:
            is_well = self._remember(found, told.progress)
        if told.wake_after_ms is not None:
            self.queue.add_at(name, Instant(now + told.wake_after_ms))
        if self.leaving.count(name):
            self.queue.add_at(name, Instant(now + LOOK_MS))
        if found.is_adrift:
            self.queue.add_at(name, Instant(now + SEEK_MS))
        if is_well and found.memory.is_scraped:
            for job in self._holdings.jobs(name):
                if not self._servicing.is_scraped(job.job_id):
                    self._servicing.scrape(job.job_id)
        return is_well

    def _end(self, name: str, now: Instant) -> bool:
        """Nothing is told to be there: what is, ends."""
        jobs = self._holdings.jobs(name)
        self.leaving.note(name, stood(jobs, self._servicing, now))
        if not all(self._did(c.EndService(job_id=job.job_id)) for job in jobs):
            return False
        if self.leaving.count(name):
            self.queue.add_at(name, Instant(now + LOOK_MS))
        else:
            owner = self._holdings.owner(name)
            self._holdings.jobs(name)
            self._holdings.forget(name)
            self._workloads.pop(name, None)
            self.sites.forget(owner)
            self._holdings.changed(owner, "")
        return True

    def _revive(self, found: Tended, name: str, now: Instant) -> bool:
        """A replica that spent its budget is begun again once the budget is whole."""
        due: dict[JobId, list[Index]] = {}
        for replica in found.replicas:
            if replica.state is not TaskState.QUARANTINED:
                continue
            if replica.revision != found.workload.revision:
                continue
            if replica.whole_at > now:
                self.queue.add_at(name, replica.whole_at)
            elif replica.whole_at != NEVER:
                due.setdefault(replica.job_id, []).append(replica.index)
        return all(
            self._did(c.RetryTasks(job_id=job_id, indices=tuple(indices)))
            for job_id, indices in due.items()
        )

    def _carry_out(self, found: Tended, told: Round, name: str) -> bool:
        stopped = [found.replicas[place] for place in told.stop if place >= 0]
        if stopped:
            self.leaving.note(name, stopped)
        is_well = all(self._did(command) for command in stops_of(stopped))
        # Who has nowhere to go waits without a place of its own.
        if is_well and told.start and not found.site.problem:
            is_well = self._did(self._start_of(found, told.start))
        if not is_well:
            return False
        gone = {(replica.job_id, replica.index) for replica in stopped}
        left = {each.job_id for each in found.replicas if (each.job_id, each.index) not in gone}
        fed = {job.job_id for job in self._open(found)} if told.start else set()
        # A job without replicas is of no use any more: another is begun when it has to be.
        empty = [job for job in found.jobs if job.job_id not in left | fed]
        return all(self._did(c.EndService(job_id=job.job_id)) for job in empty)

    def _open(self, found: Tended) -> list[Job]:
        """The job that takes replicas of the wanted revision, if there is one."""
        wanted = found.workload.revision
        return [
            job
            for job in found.jobs
            if not job.sealed
            and label_of(job.spec, REVISION_LABEL) == wanted
            and bound_to(job.spec) == found.site.worker
        ][:1]

    def _start_of(self, found: Tended, count: int) -> c.Command:
        items = (plan_of(found.workload),) * count
        for job in self._open(found):
            return c.AddTasks(job_id=job.job_id, first=job.count, items=items)
        spec = job_spec(found.workload, found.site.worker)
        return c.SubmitJob(spec=spec, items=items, sealed=False)

    def _remember(self, found: Tended, progress: RolloutProgress) -> bool:
        """Where a rollout in steps stands. Only what the next round needs is written down."""
        before = found.memory.progress
        is_same = before is not None and (
            (before.revision, before.step, before.paused_until)
            == (progress.revision, progress.step, progress.paused_until)
        )
        if is_same:
            return True
        memory = Memory(progress=progress, is_scraped=found.memory.is_scraped)
        name = found.resource.name
        return self._did(r.PutResourceStatus(kind=KIND, name=name, status=encode_memory(memory)))

    def _did(self, command: c.Command) -> bool:
        return not isinstance(done(self._coordinator, command), Refused)


def done(coordinator: Coordinator, command: c.Command) -> Decision:
    """What is decided about a command of the runtimes' own."""
    return coordinator.execute(command, actor=ACTOR, strict=False)


def stops_of(replicas: Iterable[Stood]) -> list[c.Command]:
    by_job: dict[JobId, list[Index]] = {}
    for replica in replicas:
        by_job.setdefault(replica.job_id, []).append(replica.index)
    return [
        c.StopReplicas(job_id=job_id, indices=tuple(indices), reason="its place is taken")
        for job_id, indices in by_job.items()
    ]

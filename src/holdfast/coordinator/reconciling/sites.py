"""On which worker all of a runtime runs, where its template says that it is one.

The choice is recorded in the jobs themselves: they are bound to the worker by a constraint, which
the scheduler judges like any other. It stays as long as anything runs there or could: only when
that worker is gone, or takes no more work, another one is chosen.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from holdfast.coordinator.reconciling.deployment import bound_to, job_spec
from holdfast.coordinator.registry import Registry
from holdfast.coordinator.seats import Worker
from holdfast.core.ids import Instant, WorkerId
from holdfast.core.job import Job
from holdfast.core.service import shunned
from holdfast.core.shape import spec_shape
from holdfast.core.state import State
from holdfast.runtimes.workload import Workload
from holdfast.scheduler.fit import suits, suits_elsewhere
from holdfast.scheduler.seats import Seat

SEEK_MS: Final = 1_000
"""How often it is looked for a worker where there is none: none says when it comes."""

WAY_OUT: Final = "template edge, which uses several workers"


class Site(Struct, frozen=True):
    """`worker` is where all of it goes; empty: nowhere yet, or wherever it likes. `problem` is why
    there is none that takes it, in words: another look may find one."""

    worker: WorkerId = WorkerId("")
    problem: str = ""


ANYWHERE: Final = Site()
"""Of what is not kept together."""


class Sites:
    def __init__(self, state: State, registry: Registry) -> None:
        self._state = state
        self._registry = registry
        self._promised: dict[str, tuple[WorkerId, int]] = {}
        self._expected: Counter[WorkerId] = Counter()

    def of(self, owner: str, jobs: Iterable[Job], workloads: Iterable[Workload]) -> Site:
        """Where these belong: all jobs and all that is wanted of one runtime."""
        known = sorted(jobs, key=lambda job: job.position, reverse=True)
        held = Counter(
            task.worker for job in known for task in (job.tasks or {}).values() if task.lease_id
        )
        self.forget(owner)
        if held:
            return Site(max(held, key=lambda worker: (held[worker], worker)))
        wanted = tuple(workloads)
        site = self._awaited(known, wanted)
        if site.worker and not site.problem:
            self._promise(owner, site.worker, sum(workload.replicas for workload in wanted))
        return site

    def forget(self, owner: str) -> None:
        """Nothing more is expected of it: it is there, or gone."""
        worker, replicas = self._promised.pop(owner, (WorkerId(""), 0))
        self._expected[worker] -= replicas

    def _promise(self, owner: str, worker: WorkerId, replicas: int) -> None:
        """Room that is given out here is taken only later: who comes meanwhile must not be given
        the same."""
        self._promised[owner] = (worker, replicas)
        self._expected[worker] += replicas

    def _awaited(self, known: list[Job], wanted: tuple[Workload, ...]) -> Site:
        """Where it is to be begun, as long as none of it runs anywhere: where it was told to, if
        there is room, or none anywhere else."""
        former = [worker for job in known if (worker := bound_to(job.spec))]
        for name in former:
            worker = self._registry.workers.get(name)
            if worker is not None and self._is_open(worker):
                if self._room(worker.kept_seat(self._state)) > 0:
                    return Site(name)
                other = self._chosen(wanted, name)
                return Site(name) if other.problem else other
        return self._chosen(wanted, former[0] if former else WorkerId(""))

    def lacking(self, name: WorkerId) -> str:
        """Why nothing more can be begun on the worker that was chosen; empty where it can."""
        worker = self._registry.workers.get(name)
        if worker is None or not self._is_open(worker):
            return (
                f"worker {name} takes no new work, and all of it stays together: it goes to "
                "another worker when nothing of it runs there any more"
            )
        if worker.kept_seat(self._state).open_slots:
            return ""
        slots = worker.capacity.slots
        return (
            f"worker {name} has no room for it, its {slots} slots are taken, and all of it stays "
            f"together: start {name} with more --slots, or declare {WAY_OUT}"
        )

    def avoided(self, workload: Workload, site: Site, now: Instant) -> str:
        """Where it kept failing, and what follows from that for one that waits; empty where it did
        not."""
        there = shunned(self._state.falls, workload.name, now)
        if not there:
            return ""
        failed = f"it kept failing on {', '.join(sorted(there))}"
        shape = spec_shape(job_spec(workload, site.worker))
        seats = [
            worker.seat(self._state)
            for worker in self._registry.workers.values()
            if self._is_open(worker)
        ]
        if suits_elsewhere(seats, shape, there):
            return f"{failed} and is not begun there for a while; it waits for room on another"
        return f"{failed}, and no other worker could take it: it is begun there again"

    def _chosen(self, workloads: Iterable[Workload], former: WorkerId) -> Site:
        """The worker with most room of those that could take every part of it."""
        shapes = [spec_shape(job_spec(workload)) for workload in workloads]
        seats = [
            worker.kept_seat(self._state)
            for worker in self._registry.workers.values()
            if self._is_open(worker)
        ]
        able = [seat for seat in seats if all(suits(seat, shape) for shape in shapes)]
        if able:
            best = min(able, key=lambda s: (-self._room(s), s.worker != former, s.worker))
            return Site(best.worker if self._room(best) > 0 or not former else former)
        told = "no worker is there: start one with `holdfast worker start`"
        if seats:
            told = f"no worker meets what all parts of it ask for together; declare {WAY_OUT}"
        return Site(former, f"worker {former} is gone, and {told}" if former else told)

    def _room(self, seat: Seat) -> int:
        return len(seat.open_slots) - self._expected[seat.worker]

    def _is_open(self, worker: Worker | None) -> bool:
        if worker is None or not worker.capacity.slots or worker.draining:
            return False
        return self._registry.is_alive(worker) and worker.worker not in self._state.cordoned

"""What the log says of class runtimes, record by record, and whether it may.

Held against each record: generations count up by one and never go back, a status tells of no
generation that was not declared, replicas are started only where there is room for them, and a
runtime is gone only when nothing of it is left. After the storm: every runtime is where its
program lets it be, a deleted one is gone with all its children, and a look at one that is at rest
writes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from holdfast.coordinator.reconciling.deployment import KIND as DEPLOYMENT
from holdfast.coordinator.reconciling.deployment import label_of, owner_of, workload_in
from holdfast.core import events as e
from holdfast.core.job import is_finished
from holdfast.core.record import Record
from holdfast.core.resource import Resource as Kept
from holdfast.core.seen import LEASED, QUARANTINED, RUNNING, WAITING, SeenJob
from holdfast.core.spec import NOT_A_SERVICE
from holdfast.core.state import State
from holdfast.runtimes.documents import decode_status
from holdfast.runtimes.kept import read_resource
from holdfast.runtimes.manifest import decode_stored
from holdfast.runtimes.phases import EDGES
from holdfast.runtimes.resource import KIND as RUNTIME
from holdfast.runtimes.resource import OWNER_LABEL, REVISION_LABEL, Resource
from holdfast.runtimes.rollout import bounds_of
from holdfast.runtimes.spec import Spec
from holdfast.runtimes.status import ConditionType, Phase, condition_of
from holdfast.runtimes.workload import Workload
from holdfast.testing.sim.programs import SERVE

LIVING: Final = (WAITING, LEASED, RUNNING, QUARANTINED)
FAILING: Final = ("CrashLoop", "Timeout")


class Declaration(Struct):
    """A runtime as the log tells it. `observed` is the generation that a status told of last."""

    generation: int
    observed: int = 0
    phase: Phase = Phase.PENDING
    is_deleted: bool = False


class Child(Struct):
    """A service that belongs to a runtime."""

    owner: str
    deployment: str
    revision: str


class Declared:
    """`shown` has what a look at each runtime would have shown, from which position on; `moves`
    counts the phases that followed each other, `writes` the records about each runtime."""

    def __init__(self) -> None:
        self.shown: dict[str, list[tuple[int, tuple[int, int] | None]]] = {}
        self.moves: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        self._runtimes: dict[str, Declaration] = {}
        self._deployments: dict[str, Workload] = {}
        self._jobs: dict[str, Child] = {}

    def feed(self, position: int, record: Record, jobs: dict[str, SeenJob]) -> Iterator[str]:
        """What is wrong with this record; `jobs` is what is believed of all jobs after it."""
        started: dict[str, None] = {}
        for event in record.events:
            if isinstance(event, e.JobSubmitted) and event.spec.service != NOT_A_SERVICE:
                owner, name = owner_of(event.spec), event.spec.name
                child = Child(owner, name, label_of(event.spec, REVISION_LABEL))
                self._jobs[str(event.job_id)] = child
                started[name] = None
                if owner and owner not in self._runtimes:
                    yield f"{name} was started and {owner} is not declared"
            elif isinstance(event, e.TasksAdded | e.TasksRestored):
                child_of = self._jobs.get(str(event.job_id))
                if child_of is not None:
                    started[child_of.deployment] = None
            elif getattr(event, "kind", "") == RUNTIME:
                yield from self._of_runtime(position, event)
            elif getattr(event, "kind", "") == DEPLOYMENT:
                self._of_deployment(event)
        for name in started:
            yield from self._crowd(position, name, jobs)
        for event in record.events:
            if isinstance(event, e.ResourceRemoved) and event.kind == RUNTIME:
                left = self._left_of(event.name, jobs)
                if left:
                    yield f"at {position} runtime {event.name} is gone and {left} are left"

    def _of_runtime(self, position: int, event: e.AnyEvent) -> Iterator[str]:
        name = str(getattr(event, "name", ""))
        known = self._runtimes.get(name)
        if isinstance(event, e.ResourcePut):
            before = 0 if known is None else known.generation
            if event.generation != before + 1:
                yield f"at {position} {name} went from generation {before} to {event.generation}"
            if known is None:
                self._runtimes[name] = Declaration(event.generation)
            else:
                known.generation = event.generation
        elif known is None:
            yield f"at {position} something is said of {name}, which is not declared"
            return
        elif isinstance(event, e.ResourceStatusPut):
            yield from self._of_status(position, name, known, event.status)
        elif isinstance(event, e.ResourceDeletionMarked):
            known.is_deleted = True
        elif isinstance(event, e.ResourceRemoved):
            if not known.is_deleted:
                yield f"at {position} {name} is gone and nobody wanted that"
            del self._runtimes[name]
        self.writes[name] += 1
        now = self._runtimes.get(name)
        shown = None if now is None else (now.generation, position)
        self.shown.setdefault(name, [(0, None)]).append((position, shown))

    def _of_status(
        self, position: int, name: str, known: Declaration, content: bytes
    ) -> Iterator[str]:
        status = decode_status(content)
        told = status.observed_generation
        if not known.observed <= told <= known.generation:
            yield (
                f"at {position} the status of {name} tells of generation {told}, after "
                f"{known.observed} of {known.generation}"
            )
        if status.phase not in EDGES[known.phase]:
            yield f"at {position} {name} went from {known.phase} to {status.phase}"
        self.moves[f"{known.phase} -> {status.phase}"] += 1
        known.observed, known.phase = told, status.phase

    def _of_deployment(self, event: e.AnyEvent) -> None:
        if isinstance(event, e.ResourcePut):
            self._deployments[event.name] = workload_in(event.spec)
        elif isinstance(event, e.ResourceRemoved):
            self._deployments.pop(event.name, None)

    def _crowd(self, position: int, name: str, jobs: dict[str, SeenJob]) -> Iterator[str]:
        """Something of this deployment was started: are there more than there may be?"""
        workload = self._deployments.get(name)
        if workload is None:
            yield f"at {position} {name} was started, which nobody told to be there"
            return
        most = bounds_of(workload.rollout, workload.replicas).most
        living = sum(self._living(job_id, jobs) for job_id in self._of(name))
        if living > most:
            yield f"at {position} {name} has {living} replicas and may have {most}"

    def _of(self, name: str) -> list[str]:
        return [job_id for job_id, child in self._jobs.items() if child.deployment == name]

    def _living(self, job_id: str, jobs: dict[str, SeenJob]) -> int:
        job = jobs.get(job_id)
        if job is None:
            return 0
        over = sum(seen.state not in LIVING for seen in job.tasks.values())
        return job.count - over

    def _left_of(self, owner: str, jobs: dict[str, SeenJob]) -> list[str]:
        left = [
            name
            for name, workload in self._deployments.items()
            if owner in workload.labels.values()
        ]
        return left + [
            f"job {job_id}"
            for job_id, child in self._jobs.items()
            if child.owner == owner and self._living(job_id, jobs)
        ]


def is_good(spec: Spec) -> bool:
    """Whether every program of it gets ready in the end."""
    return all(
        function.command[0] == SERVE or not function.replicas for function in spec.functions
    )


def unsettled(state: State, was_degraded: set[tuple[str, int]]) -> list[str]:
    """The runtimes that are not where they should be, and children of nobody. One that cannot come
    up is tried again and again: `was_degraded` remembers that it was seen for what it is."""
    found: list[str] = []
    for (kind, name), kept in state.resources.items():
        if kind == RUNTIME:
            found += _unsettled(read_resource(kept), was_degraded)
        elif kind == DEPLOYMENT and (RUNTIME, _owner(kept)) not in state.resources:
            found.append(f"{name} without its owner")
    for job_id, job in state.jobs.items():
        if job.service is None or is_finished(job):
            continue
        owner = owner_of(job.spec)
        if owner and (DEPLOYMENT, job.spec.name) not in state.resources:
            found.append(f"job {job_id} of {job.spec.name} without its deployment")
    return found


def _owner(kept: Kept) -> str:
    return workload_in(kept.spec).labels.get(OWNER_LABEL, "")


def _unsettled(resource: Resource, was_degraded: set[tuple[str, int]]) -> list[str]:
    name, status = resource.name, resource.status
    if resource.deleted_at is not None:
        return [f"runtime {name} is deleted and still there"]
    is_current = status.observed_generation == resource.generation
    if is_good(resource.spec):
        # Whatever is left over from before is cleared away once all is well.
        clearing = condition_of(status, ConditionType.RECONCILING)
        is_so = status.phase is Phase.AVAILABLE and is_current
        is_so = is_so and not (clearing is not None and clearing.is_true)
        return [] if is_so else [f"runtime {name} is {_stands(resource)}"]
    degraded = condition_of(status, ConditionType.DEGRADED)
    if is_current and degraded is not None and degraded.is_true and degraded.reason in FAILING:
        was_degraded.add((name, resource.generation))
    if (name, resource.generation) in was_degraded:
        return []
    return [f"runtime {name}, which cannot come up, is {_stands(resource)}"]


def _stands(resource: Resource) -> str:
    told = condition_of(resource.status, ConditionType.READY)
    why = "" if told is None else f": {told.reason} {told.message}"
    generation = f"{resource.status.observed_generation} of {resource.generation}"
    return f"{resource.status.phase} at generation {generation}{why}"


def _rests(spec: Spec) -> bool:
    """Whether nothing goes on once it is up: a size is enforced step by step."""
    return is_good(spec) and spec.nfr.mode != "enforce"


def good_names(state: State) -> list[str]:
    """The runtimes that are at rest once they are up."""
    return [
        name
        for (kind, name), kept in state.resources.items()
        if kind == RUNTIME and _rests(decode_stored(kept.spec))
    ]


def _is_renewed(resource: Resource, until: int) -> bool:
    """Whether what was recommended is told anew until then: before half of it is stale."""
    half_ms = int(resource.spec.nfr.stale_after) // 2
    known = resource.status.nfr_recommendations.values()
    return any(each.observed_at + half_ms <= until for each in known)


def resting_names(state: State, until: int) -> list[str]:
    """Those of which nothing has to be written until then, if nothing happens."""
    return [
        name
        for name in good_names(state)
        if not _is_renewed(read_resource(state.resources[RUNTIME, name]), until)
    ]


def strays(running: Iterable[tuple[str, str, int]], state: State) -> list[str]:
    """Programs that run though no lease says so: (worker, job, lease) each."""
    held = {
        lease_id for holder in state.holders.values() for lease_id in holder.leases
    }
    return [
        f"{worker} runs a replica of job {job_id} under lease {lease_id}, which is over"
        for worker, job_id, lease_id in running
        if lease_id not in held
    ]

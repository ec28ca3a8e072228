"""Who recommends by what the workers measured."""

from holdfast.coordinator.reconciling.deployment import KIND, workload_of
from holdfast.coordinator.reconciling.holdings import Holdings
from holdfast.coordinator.servicing import Sampled, Servicing
from holdfast.core.ids import Instant
from holdfast.core.state import State
from holdfast.core.task import Task
from holdfast.runtimes.analyzers import Told
from holdfast.runtimes.nfr import declared_of
from holdfast.runtimes.observed import Observed
from holdfast.runtimes.recommend import Component, Measured, recommend
from holdfast.runtimes.resource import FUNCTION, Resource
from holdfast.runtimes.spec import ODGM_REPLICAS, REPLICAS, WorkersAnalyzer
from holdfast.runtimes.status import Recommendation
from holdfast.runtimes.workload import Workload


class WorkersMeasured:
    """Reckons from the samples of the replicas, as the workers tell them."""

    def __init__(self, state: State, holdings: Holdings, servicing: Servicing) -> None:
        self._state = state
        self._holdings = holdings
        self._servicing = servicing

    def recommend(
        self, resource: Resource, observed: Observed, now: Instant, told: Told
    ) -> None:
        nfr = resource.spec.nfr
        window_ms = int((nfr.analyzer.workers or WorkersAnalyzer()).window)
        found: dict[str, Recommendation] = {}
        for name in self._holdings.names(resource.name):
            stored = self._state.resources.get((KIND, name))
            if stored is None:
                continue
            found |= recommend(
                nfr,
                self._component(resource, name, workload_of(stored)),
                window_ms=window_ms,
                previous=resource.status.nfr_recommendations,
                generation=resource.generation,
                now=now,
            )
        told(found)

    def _component(self, resource: Resource, name: str, workload: Workload) -> Component:
        counted = REPLICAS if workload.component == FUNCTION else ODGM_REPLICAS
        samples = [
            measured(task, sampled)
            for job in self._holdings.jobs(name)
            for task in (job.tasks or {}).values()
            if task.lease_id
            for sampled in self._servicing.samples(task.lease_id)
        ]
        return Component(
            component=workload.component,
            function_key=workload.function_key,
            declared=declared_of(resource, counted, workload.function_key),
            told=workload.replicas,
            cpus_milli=workload.cpus_milli,
            samples=tuple(samples),
        )


def measured(task: Task, sampled: Sampled) -> Measured:
    sample = sampled.sample
    rate, latency_ms = sample.requests_per_s, sample.latency_ms
    return Measured(
        replica=f"{task.job_id}/{task.index}:{task.attempt}",
        at=sampled.at,
        cpu_milli=sample.cpu_milli,
        memory_bytes=sample.memory_bytes,
        rate_milli=None if rate is None else round(rate * 1_000),
        latency_micros=None if latency_ms is None else round(latency_ms * 1_000),
    )

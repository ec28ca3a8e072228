"""Who recommends: three ways behind one form. Each is asked about a runtime and tells, now or
later, what it holds to be right; the reducer alone writes it down.

`static` says what was written down. `workers` reckons from what the workers measured. `prometheus`
asks a server. None of them reads a clock or a socket: samples and answers are passed in.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from holdfast.core.ids import Instant
from holdfast.runtimes.nfr import declared_of
from holdfast.runtimes.prometheus import questions, read_answer
from holdfast.runtimes.recommend import Component, Measured, recommend
from holdfast.runtimes.resource import FUNCTION, Resource
from holdfast.runtimes.spec import (
    CPU,
    MEMORY,
    ODGM_REPLICAS,
    REPLICAS,
    PrometheusAnalyzer,
    StaticAnalyzer,
    WorkersAnalyzer,
)
from holdfast.runtimes.status import Recommendation
from holdfast.runtimes.workload import Workload


class Advice(Struct, frozen=True):
    """What is recommended by target, and what went wrong in a line; both may be empty."""

    recommendations: Mapping[str, Recommendation]
    problem: str = ""


Told = Callable[[Advice], None]

Sampled = Callable[[Workload], tuple[Measured, ...]]
"""What was measured lately of the replicas of a workload, oldest first."""

Answered = Callable[[bytes | None, str], None]
Ask = Callable[[str, int, Answered], None]
"""Get an address within so many milliseconds; told its content, or None and why there is none."""


class Analyzer(Protocol):
    """One way of knowing what is right."""

    def analyze(
        self, resource: Resource, workloads: tuple[Workload, ...], *, now: Instant, told: Told
    ) -> None:
        """Tell once, or once for each question asked of others, what is right for a runtime."""


def analyzer_of(resource: Resource, *, sampled: Sampled, ask: Ask) -> Analyzer:
    """The one that the spec names."""
    named = resource.spec.nfr.analyzer
    if named.static is not None:
        return Static(named.static)
    if named.prometheus is not None:
        return Prometheus(named.prometheus, ask)
    return Workers(named.workers or WorkersAnalyzer(), sampled)


class Static:
    """Says what was written down."""

    def __init__(self, values: StaticAnalyzer) -> None:
        self._values = values

    def analyze(
        self, resource: Resource, workloads: tuple[Workload, ...], *, now: Instant, told: Told
    ) -> None:
        written = {
            REPLICAS: self._values.replicas,
            MEMORY: self._values.memory,
            CPU: self._values.cpu,
            ODGM_REPLICAS: self._values.odgm_replicas,
        }
        values = {key: int(value) for key, value in written.items() if value is not None}
        told(Advice(_recommended(resource, values, "static", now)))


class Workers:
    """Reckons from what the workers measured of the processes and scraped from the functions."""

    def __init__(self, settings: WorkersAnalyzer, sampled: Sampled) -> None:
        self._settings, self._sampled = settings, sampled

    def analyze(
        self, resource: Resource, workloads: tuple[Workload, ...], *, now: Instant, told: Told
    ) -> None:
        found: dict[str, Recommendation] = {}
        for workload in workloads:
            is_function = workload.component == FUNCTION
            dimension = REPLICAS if is_function else ODGM_REPLICAS
            component = Component(
                component=workload.component,
                function_key=workload.function_key,
                declared=declared_of(resource, dimension, workload.function_key),
                told=workload.replicas,
                cpus_milli=workload.cpus_milli,
                samples=self._sampled(workload),
            )
            found |= recommend(
                resource.spec.nfr,
                component,
                window_ms=int(self._settings.window),
                previous=resource.status.nfr_recommendations,
                generation=resource.generation,
                now=now,
            )
        told(Advice(found))


class Prometheus:
    """Asks a server, one question a target; each answer is told when it comes."""

    def __init__(self, settings: PrometheusAnalyzer, ask: Ask) -> None:
        self._settings, self._ask = settings, ask

    def analyze(
        self, resource: Resource, workloads: tuple[Workload, ...], *, now: Instant, told: Told
    ) -> None:
        for question in questions(resource, self._settings):
            self._ask(
                question.url,
                int(self._settings.timeout),
                _reader(resource, question.key, now, told),
            )


def _reader(resource: Resource, key: str, now: Instant, told: Told) -> Answered:
    """Whoever asked at `now` knows how things were then, however long the answer took."""

    def answered(content: bytes | None, why: str) -> None:
        if content is None:
            told(Advice({}, f"{key}: {why}"))
            return
        try:
            values = read_answer(key, content)
        except ValueError as error:
            told(Advice({}, str(error)))
            return
        told(Advice(_recommended(resource, values, "prometheus", now)))

    return answered


def _recommended(
    resource: Resource, values: Mapping[str, int], basis: str, now: Instant
) -> dict[str, Recommendation]:
    return {
        key: Recommendation(
            value=value, observed_at=now, generation=resource.generation, basis=basis
        )
        for key, value in sorted(values.items())
    }

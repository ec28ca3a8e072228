"""Three ways of recommending, asked in the same form."""

from typing import Any

from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.analyzers import (
    Advice,
    Answered,
    Prometheus,
    Static,
    Workers,
    analyzer_of,
)
from holdfast.runtimes.recommend import Measured
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.spec import (
    Analyzer,
    Function,
    Nfr,
    Odgm,
    PrometheusAnalyzer,
    StaticAnalyzer,
)
from holdfast.runtimes.workload import Workload
from holdfast.runtimes.written import Cpu, Size
from holdfast.testing.enforced_runtimes import a_runtime, workloads_of

NOW = Instant(1_000_000)


def measured(workload: Workload) -> tuple[Measured, ...]:
    return tuple(
        Measured(
            replica=f"{workload.name}/{number}", at=Instant(NOW - 5_000 * time),
            cpu_milli=100, memory_bytes=2**20, rate_milli=100_000, latency_micros=1_000,
        )
        for number in range(workload.replicas)
        for time in range(3)
    )  # fmt: skip


def nobody_asked(url: str, timeout_ms: int, answered: Answered) -> None:
    raise AssertionError(url)


def advice_of(resource: Resource, **ports: Any) -> list[Advice]:
    told: list[Advice] = []
    analyzer = analyzer_of(resource, **({"sampled": measured, "ask": nobody_asked} | ports))
    analyzer.analyze(resource, workloads_of(resource), now=NOW, told=told.append)
    return told


def a_resource(analyzer: Analyzer, **nfr: Any) -> Resource:
    return a_runtime(
        Nfr(analyzer=analyzer, **nfr), Function(key="hello", replicas=2), odgm=Odgm(replicas=1)
    )


def test_static_says_what_was_written_down_for_this_generation() -> None:
    static = StaticAnalyzer(replicas=10, memory=Size(7), cpu=Cpu(5), odgm_replicas=3)
    resource = replace(a_resource(Analyzer(static=static)), generation=4)
    (advice,) = advice_of(resource)
    values = {key: found.value for key, found in advice.recommendations.items()}
    assert values == {"replicas": 10, "memory": 7, "cpu": 5, "odgm_replicas": 3}
    (replicas,) = [found for key, found in advice.recommendations.items() if key == "replicas"]
    assert (replicas.generation, replicas.observed_at) == (4, NOW)
    assert (replicas.basis, replicas.confidence) == ("static", 1.0)
    partial = advice_of(a_resource(Analyzer(static=StaticAnalyzer(replicas=2))))
    assert list(partial[0].recommendations) == ["replicas"]


def test_workers_reckon_for_each_function_and_the_data_grid() -> None:
    (advice,) = advice_of(a_resource(Nfr().analyzer, min_throughput_rps=50.0))
    values = {key: found.value for key, found in advice.recommendations.items()}
    # Two replicas at a hundred requests a second each, twenty-five of them the share of one.
    assert values["replicas/hello"] == 8
    assert values["odgm_replicas"] == 1
    assert set(values) == {"replicas/hello", "memory/hello", "cpu/hello", "odgm_replicas"}


def test_workers_without_samples_recommend_nothing() -> None:
    assert advice_of(a_resource(Nfr().analyzer), sampled=lambda _: ()) == [Advice({})]


PROMETHEUS = Analyzer(
    prometheus=PrometheusAnalyzer(url="http://p:9", queries={"replicas": "a", "memory": "b"})
)


def test_prometheus_tells_each_answer_when_it_comes() -> None:
    waiting: dict[str, Answered] = {}

    def ask(url: str, timeout_ms: int, answered: Answered) -> None:
        assert timeout_ms == 5_000
        waiting[url.partition("=")[2]] = answered

    resource = a_resource(PROMETHEUS)
    told: list[Advice] = []
    analyzer = analyzer_of(resource, sampled=measured, ask=ask)
    analyzer.analyze(resource, workloads_of(resource), now=NOW, told=told.append)
    assert told == []
    waiting["a"](b'{"status":"success","data":{"resultType":"scalar","result":[1,"4"]}}', "")
    (found,) = told[0].recommendations.items()
    assert (found[0], found[1].value, found[1].basis) == ("replicas", 4, "prometheus")
    assert found[1].observed_at == NOW
    waiting["b"](None, "connection refused")
    assert told[1] == Advice({}, "memory: connection refused")
    waiting["b"](b"nonsense", "")
    assert told[2].recommendations == {}
    assert told[2].problem.startswith("memory: not an answer of Prometheus")


def test_the_spec_says_which_one_it_is() -> None:
    ports: dict[str, Any] = {"sampled": measured, "ask": nobody_asked}
    static = Analyzer(static=StaticAnalyzer(replicas=1))
    assert isinstance(analyzer_of(a_resource(static), **ports), Static)
    assert isinstance(analyzer_of(a_resource(PROMETHEUS), **ports), Prometheus)
    assert isinstance(analyzer_of(a_resource(Nfr().analyzer), **ports), Workers)

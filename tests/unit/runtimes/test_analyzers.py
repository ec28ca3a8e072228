"""What was written down, and what a Prometheus server says, asked in the same form."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.analyzers import ASK_MS, Answered, Prometheus, Static
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.spec import Analyzer, Nfr, PrometheusAnalyzer, StaticAnalyzer
from holdfast.runtimes.status import Recommendation
from holdfast.runtimes.written import Cpu, Size
from holdfast.testing.enforced_runtimes import a_runtime, observed_at

NOW = Instant(1_000_000)
ASKED = Analyzer(
    prometheus=PrometheusAnalyzer(url="http://p:9", queries={"replicas": "a", "memory": "b"})
)
Told = list[Mapping[str, Recommendation]]


def asked(analyzer: Static | Prometheus, resource: Resource, now: int = NOW) -> dict[str, int]:
    told: Told = []
    analyzer.recommend(resource, observed_at(resource), Instant(now), told.append)
    (found,) = told
    return {key: each.value for key, each in found.items()}


def an_answer(value: str) -> bytes:
    data = f'{{"resultType":"scalar","result":[1,"{value}"]}}'
    return f'{{"status":"success","data":{data}}}'.encode()


class Server:
    """Keeps questions until the test answers them."""

    def __init__(self) -> None:
        self.open: dict[str, Answered] = {}
        self.complaints: list[tuple[str, str]] = []
        self.prometheus = Prometheus(self.ask, lambda *said: self.complaints.append(said))

    def ask(self, url: str, timeout_ms: int, answered: Answered) -> None:
        assert timeout_ms == 5_000
        self.open[url.partition("=")[2]] = answered

    def answer(self, query: str, content: bytes | None, why: str = "") -> None:
        self.open.pop(query)(content, why)


def test_static_says_what_was_written_down_for_this_generation() -> None:
    static = StaticAnalyzer(replicas=10, memory=Size(7), cpu=Cpu(5), odgm_replicas=3)
    resource = replace(a_runtime(Nfr(analyzer=Analyzer(static=static))), generation=4)
    assert asked(Static(), resource) == {
        "replicas": 10, "memory": 7, "cpu": 5, "odgm_replicas": 3
    }  # fmt: skip
    told: Told = []
    Static().recommend(resource, observed_at(resource), NOW, told.append)
    assert told[0]["replicas"] == Recommendation(
        value=10, observed_at=NOW, generation=4, confidence=1.0, basis="static"
    )
    partial = a_runtime(Nfr(analyzer=Analyzer(static=StaticAnalyzer(replicas=2))))
    assert asked(Static(), partial) == {"replicas": 2}
    assert asked(Static(), a_runtime(Nfr())) == {}


def test_prometheus_holds_nobody_up_and_tells_what_it_heard_last() -> None:
    server, resource = Server(), a_runtime(Nfr(analyzer=ASKED))
    assert asked(server.prometheus, resource) == {}
    assert sorted(server.open) == ["a", "b"]
    server.answer("a", an_answer("4"))
    assert asked(server.prometheus, resource) == {"replicas": 4}
    server.answer("b", an_answer("77"))
    assert asked(server.prometheus, resource) == {"replicas": 4, "memory": 77}
    assert server.open == {}


def test_prometheus_is_asked_anew_after_a_while_and_not_while_it_thinks() -> None:
    server, resource = Server(), a_runtime(Nfr(analyzer=ASKED))
    asked(server.prometheus, resource)
    answers = [server.open.pop("a"), server.open.pop("b")]
    asked(server.prometheus, resource, NOW + 10 * ASK_MS)
    assert server.open == {}
    for answered in answers:
        answered(an_answer("4"), "")
    asked(server.prometheus, resource, NOW + ASK_MS - 1)
    assert server.open == {}
    asked(server.prometheus, resource, NOW + ASK_MS)
    assert sorted(server.open) == ["a", "b"]


def test_002_148_what_prometheus_said_is_as_old_as_the_question() -> None:
    server, resource = Server(), a_runtime(Nfr(analyzer=ASKED))
    asked(server.prometheus, resource)
    server.answer("a", an_answer("4"))
    told: Told = []
    later = Instant(NOW + 5_000)
    server.prometheus.recommend(resource, observed_at(resource), later, told.append)
    assert told[0]["replicas"] == Recommendation(
        value=4, observed_at=NOW, generation=1, basis="prometheus"
    )


def test_a_new_generation_is_asked_about_anew_and_hears_no_old_answer() -> None:
    server, resource = Server(), a_runtime(Nfr(analyzer=ASKED))
    asked(server.prometheus, resource)
    late = server.open["a"]
    changed = replace(resource, generation=2)
    assert asked(server.prometheus, changed) == {}
    late(an_answer("9"), "")
    assert asked(server.prometheus, changed) == {}
    server.answer("a", an_answer("5"))
    assert asked(server.prometheus, changed) == {"replicas": 5}


def test_one_that_took_the_name_of_another_hears_nothing_of_what_that_was_told() -> None:
    server, resource = Server(), a_runtime(Nfr(analyzer=ASKED))
    asked(server.prometheus, resource)
    server.answer("a", an_answer("9"))
    assert asked(server.prometheus, replace(resource, created_at=Instant(NOW))) == {}


def test_a_problem_is_complained_of_once_and_what_was_heard_stays() -> None:
    server, resource = Server(), a_runtime(Nfr(analyzer=ASKED))
    for turn in range(3):
        asked(server.prometheus, resource, NOW + turn * ASK_MS)
        server.answer("a", an_answer("4") if turn == 0 else None, "connection refused")
        server.answer("b", None, "connection refused")
    assert asked(server.prometheus, resource) == {"replicas": 4}
    assert server.complaints == [
        ("greeter", "memory: connection refused"),
        ("greeter", "replicas: connection refused"),
    ]
    asked(server.prometheus, resource, NOW + 3 * ASK_MS)
    server.answer("a", b"nonsense")
    assert server.complaints[-1][1].startswith("replicas: not an answer of Prometheus")


def test_nothing_is_asked_where_no_server_is_named() -> None:
    server = Server()
    values: dict[str, Any] = asked(server.prometheus, a_runtime(Nfr()))
    assert values == {}
    assert server.open == {}

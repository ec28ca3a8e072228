"""Questions to a Prometheus server, and what its answers mean."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.runtimes.prometheus import questions, read_answer, url_of
from holdfast.runtimes.spec import Function, Nfr, PrometheusAnalyzer
from holdfast.testing.enforced_runtimes import a_runtime

RESOURCE = a_runtime(Nfr(), Function(key="hello"), Function(key="bye"))


def asked(**queries: str) -> list[tuple[str, str]]:
    analyzer = PrometheusAnalyzer(
        url="http://prometheus:9090/", queries={k.replace("__", "/"): v for k, v in queries.items()}
    )
    found = questions(RESOURCE, analyzer)
    return [(each.key, parse_qs(urlsplit(each.url).query)["query"][0]) for each in found]


def an_answer(*series: tuple[dict[str, str], str]) -> bytes:
    result = [{"metric": metric, "value": [1_700_000_000.123, value]} for metric, value in series]
    body = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return json.dumps({**body, "warnings": ["x"]}).encode()


def test_a_question_is_an_address() -> None:
    assert url_of("http://p:9090/", 'sum(rate(x{a="b"}[1m])) + 1') == (
        "http://p:9090/api/v1/query?query=sum%28rate%28x%7Ba%3D%22b%22%7D%5B1m%5D%29%29+%2B+1"
    )


def test_a_query_may_name_the_runtime_and_one_function_or_each() -> None:
    assert asked(replicas="ceil(load)") == [("replicas", "ceil(load)")]
    assert asked(replicas='x{f="$function",r="$runtime",i="$__rate_interval"}') == [
        ("replicas/hello", 'x{f="hello",r="greeter",i="$__rate_interval"}'),
        ("replicas/bye", 'x{f="bye",r="greeter",i="$__rate_interval"}'),
    ]
    assert asked(replicas__bye="x{f='$function'}", memory="m") == [
        ("memory", "m"),
        ("replicas/bye", "x{f='bye'}"),
    ]


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("replicas", "3", 3),
        ("replicas", "2.01", 3),
        ("replicas", "3.0000000001", 3),
        ("replicas", "0", 0),
        ("memory/hello", "1.5e8", 150_000_000),
        ("cpu/hello", "0.25", 250),
        ("odgm_replicas", "2", 2),
    ],
)
def test_a_value_is_whole_in_the_unit_of_its_dimension(key: str, text: str, value: int) -> None:
    assert read_answer(key, an_answer(({}, text))) == {key: value}
    scalar = {"status": "success", "data": {"resultType": "scalar", "result": [1.0, text]}}
    assert read_answer(key, json.dumps(scalar).encode()) == {key: value}


def test_several_series_are_told_apart_by_function() -> None:
    content = an_answer(({"function": "hello"}, "3"), ({"function": "bye"}, "1"))
    assert read_answer("replicas", content) == {"replicas/hello": 3, "replicas/bye": 1}


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-1", "1e300"])
def test_no_series_and_no_number_are_no_recommendation(text: str) -> None:
    assert read_answer("replicas", an_answer()) == {}
    assert read_answer("replicas", an_answer(({}, text))) == {}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"<html>", "replicas: not an answer of Prometheus"),
        (b"", "replicas: not an answer of Prometheus"),
        (b'{"status":"error","errorType":"bad_data","error":"parse error"}', "says parse error"),
        (b'{"status":"success"}', "says success"),
        (
            b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
            "not an answer of Prometheus",
        ),
        (an_answer(({}, "x")), "'x' is not a number"),
        (an_answer(({"a": "1"}, "1"), ({"a": "2"}, "2")), "2 series; sum them, or label each"),
    ],
)
def test_what_is_no_answer_says_why(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_answer("replicas", content)


@settings(max_examples=20)
@pytest.mark.slow
@given(st.binary(max_size=60) | st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["status", "data", "result", "resultType"]), inner),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_no_answer_breaks_the_reader(content: Any) -> None:
    try:
        found = read_answer("replicas", content)
    except ValueError as error:
        found = {str(error).partition(": ")[0]: 0}
    assert set(found) <= {"replicas"}

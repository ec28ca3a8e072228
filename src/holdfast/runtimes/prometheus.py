"""Asking a Prometheus server what is right: the address of a question, and the meaning of an
answer. Who carries them is another matter.

One query a target (`replicas`, or `replicas/hello` for one function). Its value is taken as the
recommendation: replicas and bytes rounded upwards, processors in thousandths. In a query `$runtime`
stands for the name of the runtime and `$function` for the key of a function; a query for all of
them that names it is asked once for each. An answer of several series says in the label `function`
whose each is. No series, or one that is no number, is no recommendation.
"""

import math
from collections.abc import Iterator
from string import Template
from typing import Final
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from holdfast.runtimes.resource import Resource
from holdfast.runtimes.spec import CPU, PrometheusAnalyzer
from holdfast.runtimes.status import parse_target_key, target_key

PATH: Final = "/api/v1/query"
FUNCTION_LABEL: Final = "function"
LARGEST: Final = 2**60
# A rate that should be a whole number seldom is: 3.0000000001 replicas are three.
WHOLE_ENOUGH: Final = 1e-6


class Question(Struct, frozen=True, gc=False):
    """What to ask for one target."""

    key: str
    url: str


class _Series(Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Vector(Struct, tag_field="resultType", tag="vector"):
    result: list[_Series]


class _Scalar(Struct, tag_field="resultType", tag="scalar"):
    result: tuple[float, str]


class _Answer(Struct):
    status: str
    data: _Vector | _Scalar | None = None
    error: str = ""


def questions(resource: Resource, analyzer: PrometheusAnalyzer) -> tuple[Question, ...]:
    """All there is to ask about a runtime, in the order of the targets."""
    return tuple(
        Question(key, url_of(analyzer.url, text))
        for written, query in sorted(analyzer.queries.items())
        for key, text in _spelled(resource, written, query)
    )


def _spelled(resource: Resource, written: str, query: str) -> Iterator[tuple[str, str]]:
    dimension, function_key = parse_target_key(written)
    template = Template(query)
    for_each = not function_key and FUNCTION_LABEL in template.get_identifiers()
    keys = [function.key for function in resource.spec.functions] if for_each else [function_key]
    for key in keys:
        text = template.safe_substitute(runtime=resource.name, function=key)
        yield target_key(dimension, key), text


def url_of(server: str, query: str) -> str:
    return f"{server.rstrip('/')}{PATH}?{urlencode({'query': query})}"


def read_answer(key: str, content: bytes) -> dict[str, int]:
    """The values by target that answer the question for `key`. A `ValueError` says what is wrong
    with an answer that is none."""
    try:
        answer = msgspec.json.decode(content, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{key}: not an answer of Prometheus: {error}") from None
    if answer.status != "success" or answer.data is None:
        raise ValueError(f"{key}: Prometheus says {answer.error or answer.status}")
    if isinstance(answer.data, _Scalar):
        return _valued({key: answer.data.result[1]})
    series = answer.data.result
    if len(series) == 1:
        return _valued({key: series[0].value[1]})
    dimension, function_key = parse_target_key(key)
    if series and (function_key or not all(FUNCTION_LABEL in each.metric for each in series)):
        told = f"{len(series)} series; sum them, or label each with {FUNCTION_LABEL!r}"
        raise ValueError(f"{key}: {told}")
    return _valued(
        {target_key(dimension, each.metric[FUNCTION_LABEL]): each.value[1] for each in series}
    )


def _valued(told: dict[str, str]) -> dict[str, int]:
    values: dict[str, int] = {}
    for key, text in told.items():
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{key}: {text!r} is not a number") from None
        if parse_target_key(key)[0] == CPU:
            value *= 1_000
        if math.isfinite(value) and 0 <= value <= LARGEST:
            values[key] = math.ceil(value - WHOLE_ENOUGH)
    return values

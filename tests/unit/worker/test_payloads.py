"""Arguments and results survive the wire, or say which of them cannot."""

import asyncio
import dataclasses
import datetime
import enum
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.ids import Index, LeaseId
from holdfast.wire.exchange import Item
from holdfast.worker.functions import CannotFind, reference
from holdfast.worker.loops import LaneLoop
from holdfast.worker.payloads import (
    CannotEncode,
    bind,
    decode_call,
    decode_result,
    encode_call,
    encode_result,
    pickled_target,
)
from holdfast.worker.plans import BadArgument, plan_of

plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Shape(msgspec.Struct):
    points: tuple[Point, ...]


class Opaque:
    pass


def add(a: int, b: int = 0) -> int:
    return a + b


def typed(
    pair: tuple[int, int],
    *points: Point,
    at: datetime.datetime | None = None,
    tags: set[str] = frozenset(),  # type: ignore[assignment]
    **colours: Colour,
) -> list[str]:
    return [repr(pair), repr(points), repr(at), repr(sorted(tags)), repr(colours)]


def loose(pair: tuple[int, int] = None) -> str:  # type: ignore[assignment]  # noqa: RUF013
    return repr(pair)


def opaque_inside(values: list[Opaque], pair: tuple[int, int]) -> str:
    return repr((values, pair))


def annotated_with_notes(
    count: "how many of them",  # type: ignore[valid-type]  # noqa: F722
    pair: tuple[int, int],
) -> str:
    return repr((count, pair))


@dataclasses.dataclass
class Deferred:
    part: "KnownToATypeCheckerAlone"  # type: ignore[name-defined]  # noqa: F821


def deferred_inside(value: Deferred, pair: tuple[int, int]) -> str:
    return repr((value, pair))


def placed(index: int, pair: tuple[int, int] = (0, 0), *, scale: int = 1) -> list[Any]:
    return [index * scale, repr(pair)]


def typed_bytes(count: int, pair: tuple[int, int] = (0, 0)) -> bytes:
    return bytes(count)


async def later(n: int) -> int:
    await asyncio.sleep(0)
    return n + 1


def hidden(n: int) -> Coroutine[Any, Any, int]:
    return later(n)


def call(function: Callable[..., Any], payload: bytes, *, kind: str = "function") -> Any:
    loop = LaneLoop()
    try:
        bound = bind(kind, reference(function), loop.complete)
        return decode_result(bound(Item(Index(7), LeaseId(1), 1, payload)))
    finally:
        loop.close()


@settings(max_examples=15)
@given(
    args=st.lists(plain_values, max_size=3),
    kwargs=st.dictionaries(st.sampled_from(["a", "b", "ü"]), plain_values, max_size=2),
)
def test_plain_calls_come_back_as_they_went(args: list[Any], kwargs: dict[str, Any]) -> None:
    assert decode_call(encode_call(args, kwargs)) == (tuple(args), kwargs)


@settings(max_examples=15)
@given(value=plain_values)
def test_plain_results_come_back_as_they_went(value: Any) -> None:
    assert decode_result(encode_result(value)) == value


@pytest.mark.parametrize(
    ("args", "kwargs", "named"),
    [
        ((1, Opaque()), {}, "argument 2 (Opaque)"),
        ((), {"b": 2**80}, "argument b (int)"),
        (("\ud800",), {}, "argument 1 (str)"),
    ],
)
def test_an_argument_that_cannot_be_sent_is_named(
    args: tuple[Any, ...], kwargs: dict[str, Any], named: str
) -> None:
    with pytest.raises(CannotEncode) as caught:
        encode_call(args, kwargs)
    assert named in str(caught.value)
    assert "pickle=True" in str(caught.value)


def test_a_list_that_holds_itself_cannot_be_sent() -> None:
    knot: list[Any] = []
    knot.append(knot)
    with pytest.raises(CannotEncode, match="argument 1"):
        encode_call((knot,))


def test_a_call_reaches_its_function_with_and_without_keywords() -> None:
    assert call(add, encode_call((3,))) == 3
    assert call(add, encode_call((3,), {"b": 4})) == 7


def test_functions_of_plain_types_need_no_plan() -> None:
    def plain(a: int, b: list[str], c: dict[str, float] | None, d: Any, *e: bytes) -> None: ...

    assert plan_of(plain) is None
    assert plan_of(typed) is not None


def test_arguments_arrive_as_the_types_the_function_asks_for() -> None:
    moment = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
    kwargs = {"at": moment, "tags": {"b", "a"}, "sky": Colour.RED}
    assert call(typed, encode_call(((1, 2), Point(3), Point(4, 5)), kwargs)) == [
        "(1, 2)",
        "(Point(x=3, y=0), Point(x=4, y=5))",
        repr(moment),
        "['a', 'b']",
        repr({"sky": Colour.RED}),
    ]


def test_none_is_taken_by_every_annotation() -> None:
    assert call(loose, encode_call((None,))) == "None"


def test_an_argument_that_does_not_fit_is_named() -> None:
    with pytest.raises(BadArgument, match="argument pair does not fit"):
        call(loose, encode_call((["one", "two"],)))


def test_an_annotation_that_cannot_be_made_is_left_alone() -> None:
    assert call(opaque_inside, encode_call(([1], (2, 3)))) == "([1], (2, 3))"


def test_annotations_that_cannot_be_read_ask_for_nothing() -> None:
    assert call(annotated_with_notes, encode_call((1, (2, 3)))) == "(1, [2, 3])"
    assert call(deferred_inside, encode_call(({"part": 1}, (2, 3)))) == "({'part': 1}, (2, 3))"
    assert decode_result(encode_result({"part": 1}), Deferred) == {"part": 1}


def test_an_array_task_gets_its_index_before_the_shared_arguments() -> None:
    assert call(placed, b"", kind="array") == [7, "(0, 0)"]
    shared = encode_call(((1, 2),), {"scale": 3})
    assert call(placed, shared, kind="array") == [21, "(1, 2)"]


@pytest.mark.parametrize("function", [later, hidden])
def test_coroutines_run_to_their_end(function: Callable[..., Any]) -> None:
    assert call(function, encode_call((1,))) == 2


def test_a_pickled_call_carries_function_arguments_and_result() -> None:
    offset = 10
    bound = bind("pickle", pickled_target(lambda z: z + offset), LaneLoop().complete)
    result = bound(Item(Index(0), LeaseId(1), 1, encode_call((1j,), pickle=True)))
    assert decode_result(result, pickle=True) == 10 + 1j


def test_a_pickled_result_is_not_read_by_accident() -> None:
    with pytest.raises(ValueError, match="pickle=True"):
        decode_result(encode_result(1j, pickle=True))


async def stream() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ((n for n in (1, 2)), "Return a list"),
        (stream(), "Return a list"),
        (Opaque(), "pickle=True"),
    ],
)
def test_a_result_that_cannot_be_sent_says_what_to_do(value: Any, advice: str) -> None:
    with pytest.raises(CannotEncode, match=advice):
        encode_result(value)


def test_a_result_becomes_the_type_its_function_promises() -> None:
    shape = Shape(points=(Point(1, 2),))
    assert decode_result(encode_result(shape), Shape) == shape
    assert decode_result(encode_result((1, 2)), tuple[int, int]) == (1, 2)


def test_a_result_that_breaks_its_promise_comes_as_it_is() -> None:
    assert decode_result(encode_result("text"), tuple[int, int]) == "text"


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(CannotFind, match="kind 'riddle'"):
        bind("riddle", reference(add), LaneLoop().complete)


def test_what_a_coroutine_leaves_running_is_ended_before_the_next() -> None:
    ended: list[str] = []

    async def lingering() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("lingering")

    async def leaves_it() -> asyncio.Task[None]:
        task = asyncio.create_task(lingering())
        await asyncio.sleep(0)
        return task

    loop = LaneLoop()
    task = loop.complete(leaves_it())
    assert (task.cancelled(), ended) == (True, ["lingering"])
    loop.close()


def test_a_loop_torn_by_an_exit_is_replaced() -> None:
    async def leaves() -> None:
        raise SystemExit(4)

    loop = LaneLoop()
    with pytest.raises(SystemExit):
        loop.complete(leaves())
    assert loop.complete(later(1)) == 2
    loop.close()

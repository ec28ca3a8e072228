"""Whatever user code raises becomes short, storable text about the user's code."""

import sys
from typing import Any

import pytest

from holdfast.core.ids import Index, LeaseId
from holdfast.wire.exchange import Item
from holdfast.worker.calls import Calls
from holdfast.worker.functions import reference
from holdfast.worker.payloads import encode_call
from holdfast.worker.troubles import (
    ERROR_BYTES_MAX,
    TRACEBACK_BYTES_MAX,
    Trouble,
    bounded,
    describe,
)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Numeric(Exception):
    def __str__(self) -> Any:
        return 5  # noqa: PLE0307 - wrong on purpose


class Shy(str):
    def __format__(self, spec: str) -> str:
        raise RuntimeError("no words")


class Shown(Exception):
    def __str__(self) -> str:
        return Shy("hidden")


class Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class Unnamed(Exception, metaclass=Nameless):
    pass


class Riddle(SystemExit):
    @property
    def code(self) -> int:  # type: ignore[override]
        raise RuntimeError("no code")


def inner(n: int) -> None:
    raise ValueError(f"bad {n}")


def outer(n: int) -> None:
    try:
        inner(n)
    except ValueError as error:
        raise KeyError("outer") from error


async def outer_later(n: int) -> None:
    outer(n)


def trouble_of(error: BaseException) -> Trouble:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - exits are described too
        return describe(caught)


@pytest.mark.parametrize("function", [outer, outer_later])
def test_a_traceback_shows_the_users_frames_and_not_ours(function: Any) -> None:
    calls = Calls()
    call = calls.prepare("function", reference(function))
    with pytest.raises(KeyError) as caught:
        call(Item(Index(0), LeaseId(1), 1, encode_call((3,))))
    told = describe(caught.value)
    calls.close()
    assert told.error == "KeyError: 'outer'"
    assert "in inner" in told.traceback
    assert "in outer" in told.traceback
    assert "ValueError: bad 3" in told.traceback
    assert "worker/payloads.py" not in told.traceback
    assert "asyncio" not in told.traceback


@pytest.mark.parametrize("error", [Mute(), Numeric(), Shown()])
def test_an_error_without_words_is_still_described(error: Exception) -> None:
    told = trouble_of(error)
    assert told.error == f"{type(error).__name__}: (its message could not be read)"
    assert type(error).__name__ in told.traceback


def test_an_error_that_hides_its_name_is_still_named() -> None:
    assert trouble_of(Unnamed("words")).error == "Unnamed: words"


def test_an_exit_that_hides_its_code_counts_as_one() -> None:
    assert trouble_of(Riddle()).exit_code == 1


def test_errors_of_a_group_are_all_told() -> None:
    told = trouble_of(ExceptionGroup("several", [ValueError("one"), KeyError("two")]))
    assert "ValueError: one" in told.traceback
    assert "KeyError: 'two'" in told.traceback


@pytest.mark.parametrize(
    ("code", "expected"), [(3, 3), (None, 0), ("gone", 1), (True, 1), (2**70 + 5, 5)]
)
def test_an_exit_carries_the_code_a_process_would(code: Any, expected: int) -> None:
    assert trouble_of(SystemExit(code)).exit_code == expected


def test_only_an_exit_carries_a_code() -> None:
    assert trouble_of(KeyboardInterrupt()).exit_code is None


@pytest.mark.parametrize("letter", ["x", "é", "😀", "\ud800"])
def test_long_text_keeps_head_and_tail_within_its_bound(letter: str) -> None:
    told = trouble_of(ValueError("head" + letter * 100_000 + "tail"))
    assert len(told.error.encode()) <= ERROR_BYTES_MAX
    assert len(told.traceback.encode()) <= TRACEBACK_BYTES_MAX
    assert told.error.startswith("ValueError: head")
    assert told.error.endswith("tail")
    assert "bytes left out" in told.error


def test_text_within_its_bound_is_untouched() -> None:
    assert bounded("é" * 10, 20) == "é" * 10


def test_endless_recursion_is_described_briefly() -> None:
    def endless() -> None:
        endless()

    limit = sys.getrecursionlimit()
    with pytest.raises(RecursionError) as caught:
        endless()
    assert len(describe(caught.value).traceback.encode()) <= TRACEBACK_BYTES_MAX
    assert sys.getrecursionlimit() == limit

"""What a member of a data grid may answer, and that whatever else it answers says nothing."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ids import LeaseId
from holdfast.wire.partitions import ANSWER_BYTES_MAX, read_partitions
from holdfast.wire.servicing import (
    PARTITIONS_MAX,
    PartitionClaim,
    PartitionNews,
    claims_problem,
    partitions_problem,
)

WELL = {"name": "0", "members": 3, "ready": 3, "leader": "odgm-0"}


def answer(*partitions: Any) -> bytes:
    return json.dumps({"partitions": partitions, "term": 7}).encode()


def test_an_answer_is_read_and_what_else_it_says_is_passed_over() -> None:
    told = answer(WELL, {**WELL, "name": 1, "ready": 2, "leader": None, "epoch": 4})
    assert read_partitions(told) == (
        PartitionClaim("0", 3, 3, "odgm-0"),
        PartitionClaim("1", 3, 2, ""),
    )
    assert read_partitions(answer()) == ()
    assert read_partitions(answer({"name": "0", "members": 1, "ready": 0})) == (
        PartitionClaim("0", 1, 0),
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no answer about partitions: Input data was truncated"),
        (b"<html>", "no answer about partitions: JSON is malformed"),
        (b"[]", "no answer about partitions: Expected `object`, got `array`"),
        (b"{}", "no answer about partitions: Object missing required field `partitions`"),
        (b"\xff\xfe", "no answer about partitions: JSON is malformed"),
        (b"[" * 50_000, "no answer about partitions: "),
        (answer({"name": "0"}), "missing required field `members`"),
        (answer({**WELL, "members": "three"}), "Expected `int`, got `str`"),
        (answer({**WELL, "ready": 4}), "partition 0: 4 of 3 ready"),
        (answer({**WELL, "ready": -1}), "partition 0: -1 of 3 ready"),
        (answer({**WELL, "members": 10**9}), "partition 0: 3 of 1000000000 ready"),
        (answer(WELL, WELL), "partition 0 is told of twice"),
        (answer({**WELL, "name": ""}), "a partition without a name"),
        (answer({**WELL, "name": "x" * 254}), "a name of more than 253 signs"),
        (answer({**WELL, "leader": "a\x1b[2J"}), "a name that cannot be printed: '0'"),
        (answer(*({**WELL, "name": n} for n in range(PARTITIONS_MAX + 1))),
         "1001 partitions are more than 1000"),
    ],
)  # fmt: skip
def test_what_is_no_answer_says_nothing_and_why(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as told:
        read_partitions(content)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 500


def test_as_many_as_may_be_told_of_fit_into_an_answer() -> None:
    told = answer(*({**WELL, "name": f"partition-{n}"} for n in range(PARTITIONS_MAX)))
    assert len(told) < ANSWER_BYTES_MAX / 2
    assert len(read_partitions(told)) == PARTITIONS_MAX


@pytest.mark.slow
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_no_bytes_break_the_reader(content: bytes) -> None:
    try:
        read = read_partitions(content)
    except ValueError:
        return
    assert claims_problem(read) == ""


def test_what_no_worker_can_honestly_say_is_named() -> None:
    good = PartitionNews(LeaseId(1), (PartitionClaim("0", 3, 3, "a"),), 5_000, 10)
    assert partitions_problem((good,)) == ""
    bad = {
        "partitions: partition 0: 4 of 3 ready": PartitionNews(
            LeaseId(1), (PartitionClaim("0", 3, 4),)
        ),
        "partitions: a number here is negative, or larger than anything is": PartitionNews(
            LeaseId(1), turn_ms=-1
        ),
        "partitions: more than 4096 characters about one replica": PartitionNews(
            LeaseId(1), problem="x" * 5_000
        ),
    }
    for said, news in bad.items():
        assert partitions_problem((good, news)) == said

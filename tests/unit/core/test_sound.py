"""Whole bytes that hold what cannot be are named on loading, thing by thing, and never used."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast.core.freeze import FrozenState, freeze, thaw
from holdfast.core.sound import Unsound
from holdfast.testing.world import World

NAMES = FrozenState.__struct_fields__
Rows = list[Any]


def frozen() -> Rows:
    """A state with a job that waits, one with a finished task and one that is under way."""
    world = World()
    for name in ("a", "b", "c"):
        world.submit("", 2, key=name)
    (lease,) = world.grant("2", 0)
    world.start("2", 0, lease)
    world.commit("2", 0, lease)
    world.grant("3", 1)
    return list(msgspec.msgpack.decode(freeze(world.state)))


def part(rows: Rows, name: str) -> Any:
    return rows[NAMES.index(name)]


def _two_jobs_of_one_name(rows: Rows) -> None:
    part(rows, "jobs").append(list(part(rows, "jobs")[0]))
    rows[NAMES.index("spec_of")] += rows[NAMES.index("spec_of")][:4]


def _an_unknown_cell(rows: Rows) -> None:
    part(rows, "jobs")[0][4] = b"\x00\x0b"


def _an_unknown_state(rows: Rows) -> None:
    part(rows, "tasks")[0][2] = 77


def _negative_attempts(rows: Rows) -> None:
    part(rows, "tasks")[0][3] = -1


def _negative_attempts_of_what_is_over(rows: Rows) -> None:
    name, attempts, ends = part(rows, "columns")[0]
    part(rows, "columns")[0] = [name, (-3).to_bytes(4, "little", signed=True) + attempts[4:], ends]


def _a_task_of_no_job(rows: Rows) -> None:
    part(rows, "tasks")[0][0] = "9"


def _a_task_beyond_its_job(rows: Rows) -> None:
    part(rows, "tasks")[0][1] = 5


def _a_task_twice(rows: Rows) -> None:
    part(rows, "tasks").append(list(part(rows, "tasks")[0]))


def _a_lease_nobody_gave(rows: Rows) -> None:
    part(rows, "tasks")[0][4] = 1_000


def _results_of_no_job(rows: Rows) -> None:
    part(rows, "columns")[0] = ["9", *part(rows, "columns")[0][1:]]


def _columns_that_do_not_fit(rows: Rows) -> None:
    name, attempts, ends = part(rows, "columns")[0]
    part(rows, "columns")[0] = [name, attempts + b"\0", ends]


CANNOT_BE: dict[str, tuple[Callable[[Rows], None], str]] = {
    "001.58 duplicate job ids": (_two_jobs_of_one_name, "job 1 is there 2 times"),
    "001.59 a cell that is no state": (_an_unknown_cell, "task 1/1 is in state 11"),
    "001.59 a state that is none": (_an_unknown_state, "task 3/1 is in state 77"),
    "001.60 negative attempts": (_negative_attempts, "task 3/1 has made -1 attempts"),
    "001.60 negative attempts of what is over": (
        _negative_attempts_of_what_is_over, "task 2/0 has made -3 attempts",
    ),
    "a task of no job": (_a_task_of_no_job, "task 9/1 is of a job that is not there"),
    "a task beyond its job": (_a_task_beyond_its_job, "task 3/5 is one of 2 of its job"),
    "a task twice": (_a_task_twice, "task 3/1 is there 2 times"),
    "a lease nobody gave": (_a_lease_nobody_gave, "task 3/1 is under lease 1000, and 3 comes"),
    "results of no job": (_results_of_no_job, "job 9 has finished tasks and is not there"),
    "columns that do not fit": (_columns_that_do_not_fit, "job 2 has columns of 9 and 16 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("what", CANNOT_BE)
def test_001_58_to_61_what_cannot_be_is_named_on_loading(what: str) -> None:
    spoil, text = CANNOT_BE[what]
    rows = frozen()
    assert thaw(msgspec.msgpack.encode(rows)).jobs
    spoil(rows)
    with pytest.raises(Unsound) as refused:
        thaw(msgspec.msgpack.encode(rows))
    assert any(text in flaw for flaw in refused.value.flaws), refused.value.flaws


def test_001_61_every_flaw_is_told_and_the_sentence_stays_short() -> None:
    rows = frozen()
    _negative_attempts(rows)
    _an_unknown_cell(rows)
    part(rows, "jobs").extend(list(part(rows, "jobs")[0]) for _ in range(8))
    rows[NAMES.index("spec_of")] += rows[NAMES.index("spec_of")][:4] * 8
    with pytest.raises(Unsound) as refused:
        thaw(msgspec.msgpack.encode(rows))
    assert len(refused.value.flaws) == 11
    assert str(refused.value).endswith("; and 6 more")

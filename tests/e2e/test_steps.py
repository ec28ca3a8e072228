"""Whoever is killed at whichever step between a task's body and DONE: what was promised happens, as
often as was promised, and nothing else does.

The world outside is counted by others than Holdfast: a table, lines of a file, the notes of a
receiver of requests, a folder.
"""

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec
import pytest

from holdfast.cli.benchmarks.services import find_postgres, postgres
from holdfast.testing.blows import PROCESSES, SERVED, THREADS, Wanted, orders
from holdfast.testing.lives import Passed, Plan
from holdfast.testing.outside import BOOKS, Outside
from holdfast.testing.plants import PLANTS
from holdfast.testing.served_lives import House
from holdfast.testing.step_table import STEPS
from holdfast.testing.tollhouse import a_tollhouse

try:
    import psycopg
except ImportError:
    psycopg = None  # type: ignore[assignment]

PATIENCE_S = 900
SHARES = 4
LONG_SHARES = 10
"""A share is over well within the patience, on a machine that others use too."""
MISSING = [
    what
    for what, is_there in (
        ("psycopg", psycopg is not None),
        ("PostgreSQL", find_postgres() is not None),
    )
    if not is_there
]


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The address of one, or nothing where there is none."""
    if MISSING:
        yield ""
        return
    # Not below the folder of the tests, which nobody else may enter: PostgreSQL is somebody else.
    with TemporaryDirectory() as folder, postgres(Path(folder)) as dsn:
        yield dsn


@pytest.fixture
def books(database: str) -> str:
    if database:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("drop table if exists books, holdfast_effects")
            connection.execute(BOOKS)
    return database


Open = Callable[[str], Outside]


@pytest.fixture
def outside_of(tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as leaving:

        def build(books: str) -> Outside:
            hook = leaving.enter_context(a_tollhouse(tmp_path / "tolls"))
            return Outside(tmp_path, hook, books)

        yield build


def embedded(outside: Outside, executor: str, wanted: list[Wanted], *plants: str) -> list[Passed]:
    """Live through these orders, and hear what came of each; the last says what is wrong."""
    kind: Literal["threads", "processes"] = "threads" if executor == THREADS else "processes"
    plan = Plan(str(outside.folder), kind, outside.hook, wanted, outside.books)
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.testing.lives", *plants],
        input=msgspec.json.encode(plan), stdout=subprocess.PIPE, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    return [msgspec.json.decode(line, type=Passed) for line in done.stdout.splitlines()]


def check(passed: list[Passed], wanted: list[Wanted]) -> None:
    assert [each.step for each in passed] == [*(each.step for each in wanted), ""]
    assert [each.step for each in passed if not each.was_obeyed] == [], "never reached"
    assert passed[-1].troubles == []


@pytest.mark.parametrize("share", range(2))
def test_a_program_is_killed_at_every_step(outside_of: Open, share: int) -> None:
    wanted = orders(THREADS, 1, books=False)[share::2]
    check(embedded(outside_of(""), "threads", wanted), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_a_program_is_killed_at_every_step_again_and_again(
    outside_of: Open, books: str, share: int
) -> None:
    wanted = orders(THREADS, 6, books=bool(books))[share::SHARES]
    check(embedded(outside_of(books), "threads", wanted), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_a_program_or_one_of_its_processes_is_killed_at_every_step(
    outside_of: Open, books: str, share: int
) -> None:
    wanted = orders(PROCESSES, 2, books=bool(books))[share::SHARES]
    check(embedded(outside_of(books), "processes", wanted), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_a_server_a_worker_or_one_of_theirs_is_killed_at_every_step(
    outside_of: Open, books: str, share: int
) -> None:
    wanted = orders(SERVED, 2, books=bool(books))[share::SHARES]
    house = House(outside_of(books))
    try:
        missed = [
            f"{each.step} ({each.role})"
            for number, each in enumerate(wanted)
            if not house.carry_out(each, number)
        ]
        assert missed == [], "never reached"
        assert house.judge() == []
    finally:
        house.close()


@pytest.mark.soak
@pytest.mark.parametrize("share", range(LONG_SHARES))
@pytest.mark.parametrize("executor", [THREADS, PROCESSES])
def test_a_program_is_killed_at_every_step_in_any_order(
    outside_of: Open, books: str, executor: str, share: int, dice: random.Random
) -> None:
    times = 20 if executor == THREADS else 5
    wanted = orders(executor, times, books=bool(books))[share::LONG_SHARES]
    dice.shuffle(wanted)
    check(embedded(outside_of(books), executor, wanted), wanted)


CAUGHT = {
    "the ledger is not searched": ("the line is not told yet", "ledger has"),
    "each dealing has a key of its own": ("the request is answered", "which nobody promised"),
    "a recovery forgets what is owed": ("the commit is durable", "is not settled"),
}
"""Mistakes, where a program must die to show them, and what is said of them then."""


@pytest.mark.parametrize("mistake", PLANTS)
def test_a_planted_mistake_is_caught(outside_of: Open, mistake: str) -> None:
    step, said = CAUGHT[mistake]
    passed = embedded(outside_of(""), "threads", [Wanted("program", step)], mistake)
    assert passed[0].was_obeyed
    assert any(said in trouble for trouble in passed[-1].troubles), passed[-1].troubles


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}")
def test_the_database_was_there() -> None:
    """Where it is not, the steps of its sink are left out, and this says so."""
    assert {step.kind for step in STEPS} >= {"books"}


def test_there_are_five_hundred_runs() -> None:
    rounds = {THREADS: 6, PROCESSES: 2, SERVED: 2}
    assert sum(len(orders(each, n, books=True)) for each, n in rounds.items()) >= 500
    assert len({step.name for step in STEPS}) == len(STEPS)
    assert {each.step for each in orders(SERVED, 1, books=True)} == {step.name for step in STEPS}

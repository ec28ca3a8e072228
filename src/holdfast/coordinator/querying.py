"""Questions in SQL to a projection made for them: bounded, and unable to change anything."""

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.coordinator.inspect import Moment, Reading, open_folder
from holdfast.coordinator.projection import TABLES, Table
from holdfast.coordinator.views import rfc3339
from holdfast.core.errors import OperatingError

ROWS_MOST: Final = 10_000
TIMEOUT_MS: Final = 30_000
VALUE_BYTES_MOST: Final = 16 * 1024 * 1024
HEAP_BYTES_MOST: Final = 1024 * 1024 * 1024
STEPS_A_LOOK: Final = 10_000
"""How many steps of SQLite's machine are made between two looks at the clock."""

_ALLOWED: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_FUNCTION}
)
_FORBIDDEN_FUNCTIONS: Final = frozenset({"load_extension", "fts3_tokenizer", "writefile", "edit"})


class CannotAnswer(OperatingError):
    """The question is not one that can be answered; the text says why, and what to do."""


class Question(Struct, frozen=True):
    """`rows` zero: as many as there are."""

    sql: str
    rows: int = ROWS_MOST
    timeout_ms: int = TIMEOUT_MS


class Rows(Struct, frozen=True):
    """What came of a question. `complete`: nothing was left out."""

    columns: list[str]
    rows: list[list[Any]]
    complete: bool
    position: int
    at: str


class Written(Struct, frozen=True):
    """A file with all tables: of which position, and how many rows each has."""

    position: int
    tables: dict[str, int]


def ask(reading: Reading, question: Question) -> Rows:
    """Answer from the state at one moment. Time and memory are bounded, writing is impossible."""
    if not question.sql.strip():
        raise CannotAnswer("nothing was asked. `holdfast query --schema` lists the tables.")
    began = time.monotonic()
    with _blank("") as database:
        for table in _wanted(database, question.sql):
            _fill(database, table, reading)
        database.commit()
        database.execute("pragma query_only = on")
        _bound(database, began + question.timeout_ms / 1_000)
        try:
            with closing(database.execute(question.sql)) as cursor:
                columns = _names([each[0] for each in cursor.description or ()])
                found = islice(cursor, question.rows + 1) if question.rows else cursor
                rows = [[_shown(value) for value in row] for row in found]
        except _TROUBLES as error:
            raise _why(error, question) from None
    state = reading.state
    complete = not question.rows or len(rows) <= question.rows
    return Rows(
        columns, rows if complete else rows[:-1], complete, int(state.position),
        rfc3339(reading.wall(state.time)),
    )  # fmt: skip


def ask_folder(folder: Path, moment: Moment | None, question: Question) -> Rows:
    return ask(open_folder(folder, moment), question)


def export(reading: Reading, path: Path) -> None:
    """Write the whole projection to a file of SQLite's, whole or not at all."""
    half = path.with_name(f".{path.name}.{os.getpid()}.half")
    try:
        with _blank(str(half)) as database:
            for table in TABLES:
                _fill(database, table, reading)
            database.execute("create index attempts_of_tasks on attempts (job_id, task_index)")
            database.execute("create index events_of_jobs on events (job_id, position)")
            database.commit()
        half.rename(path)
    finally:
        half.unlink(missing_ok=True)


def counted(path: Path) -> Written:
    """What is in a file that was written so."""
    with closing(sqlite3.connect(path)) as database:
        tables = {table.name: _count(database, table) for table in TABLES}
        found = database.execute("select value from meta where name = 'position'").fetchone()
    return Written(int(found[0]), tables)


def _count(database: sqlite3.Connection, table: Table) -> int:
    # The name is one of ours.
    found = database.execute(f"select count(*) from {table.name}").fetchone()  # noqa: S608
    return int(found[0])


_TROUBLES: Final = (sqlite3.Error, sqlite3.Warning, MemoryError, ValueError)


@contextmanager
def _blank(place: str) -> Iterator[sqlite3.Connection]:
    """The tables without their rows. An empty place is a file that nobody can find."""
    with closing(sqlite3.connect(place)) as database:
        database.execute("pragma journal_mode = off")
        database.execute("pragma synchronous = off")
        for table in TABLES:
            database.execute(table.statement)
        yield database


def _fill(database: sqlite3.Connection, table: Table, reading: Reading) -> None:
    places = ", ".join("?" * len(table.columns))
    # What a later attempt of the same name says counts: a log may be read while it is written.
    # The name is one of ours.
    statement = f"insert or replace into {table.name} values ({places})"  # noqa: S608
    database.executemany(statement, _rows(table.rows(reading)))


def _rows(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    yield from rows


def _wanted(database: sqlite3.Connection, sql: str) -> list[Table]:
    """The tables that a question reads: SQLite itself says so, before there is anything in them."""
    named: set[str] = set()

    def note(action: int, first: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ and first is not None:
            named.add(first)
        return sqlite3.SQLITE_OK if _is_harmless(action, _[0]) else sqlite3.SQLITE_DENY

    database.set_authorizer(note)
    try:
        explained = sql if sql.lstrip().lower().startswith("explain") else f"explain {sql}"
        database.execute(explained).close()
    except _TROUBLES as error:
        raise _why(error, Question(sql)) from None
    finally:
        database.set_authorizer(None)
    return [table for table in TABLES if table.name in named]


def _is_harmless(action: int, function: str | None) -> bool:
    return action in _ALLOWED and (
        action != sqlite3.SQLITE_FUNCTION or function not in _FORBIDDEN_FUNCTIONS
    )


def _bound(database: sqlite3.Connection, until: float) -> None:
    def judge(action: int, _first: str | None, second: str | None, *_: str | None) -> int:
        return sqlite3.SQLITE_OK if _is_harmless(action, second) else sqlite3.SQLITE_DENY

    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MOST)
    database.execute(f"pragma hard_heap_limit = {HEAP_BYTES_MOST}")
    database.set_authorizer(judge)
    database.set_progress_handler(lambda: time.monotonic() > until, STEPS_A_LOOK)


def _why(error: Exception, question: Question) -> CannotAnswer:
    told = (str(error) or type(error).__name__).rstrip(".")
    hint = "`holdfast query --schema` lists the tables."
    if told == "interrupted":
        seconds = question.timeout_ms / 1_000
        return CannotAnswer(
            f"the question took longer than {seconds:g} s. Ask for less, or give it longer with "
            "--timeout."
        )
    if any(word in told for word in ("authoriz", "prohibited")):
        return CannotAnswer(f"only questions are answered, nothing is changed: {told}. {hint}")
    if "one statement" in told:
        return CannotAnswer(f"one question at a time: {told}")
    return CannotAnswer(f"SQL: {told}. {hint}")


def _names(columns: list[str]) -> list[str]:
    """Two columns of one name are told apart, so that a row can be an object."""
    found: list[str] = []
    for name in columns:
        number, free = 1, name
        while free in found:
            number += 1
            free = f"{name}_{number}"
        found.append(free)
    return found


def _shown(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value

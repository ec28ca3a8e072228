"""`holdfast query`: the state as tables, and nothing that could change it."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.coordinator import querying
from holdfast.coordinator.inspect import Reading, open_folder
from holdfast.coordinator.projection import TABLES, schema_lines
from holdfast.coordinator.querying import CannotAnswer, Question, ask, export

ROOT = Path(__file__).parents[3]


def rows_of(run, folder: Path, sql: str, *options: object) -> list[dict[str, object]]:
    done = run("query", sql, "--data", folder, "-o", "json", *options)
    assert done.code == 0, done.err
    return json.loads(done.out)["rows"]


def test_a_question_is_answered_as_the_other_commands_would(run, folder: Path) -> None:
    found = rows_of(run, folder, "select id, state, tasks from jobs order by position desc")
    listed = json.loads(run("job", "list", "--data", folder, "-o", "json").out)["jobs"]
    assert found == [{name: job[name] for name in ("id", "state", "tasks")} for job in listed]


def test_tasks_and_attempts_are_those_that_the_log_tells_of(run, folder: Path) -> None:
    tasks = rows_of(run, folder, "select id, state, attempt from tasks where job_id = '1'")
    listed = json.loads(run("task", "list", "1", "--data", folder, "-o", "json").out)["tasks"]
    assert tasks == [{name: task[name] for name in ("id", "state", "attempt")} for task in listed]
    for task in listed:
        shown = json.loads(run("task", "show", task["id"], "--data", folder, "-o", "json").out)
        wanted = [
            {name: each[name] for name in ("id", "status", "reason", "worker", "finished_at")}
            for each in shown["attempts"]
        ]
        sql = "select id, status, reason, worker, finished_at, task_id from attempts order by id"
        found = [row for row in rows_of(run, folder, sql) if row.pop("task_id") == task["id"]]
        assert found == wanted


def test_a_moment_of_the_past_is_asked_about_as_it_was(run, folder: Path) -> None:
    then = rows_of(run, folder, "select count(*) as n from jobs", "--at", 19)
    assert (then, rows_of(run, folder, "select count(*) as n from jobs")) == (
        [{"n": 1}],
        [{"n": 2}],
    )
    meta = rows_of(run, folder, "select value from meta where name = 'position'", "--at", 19)
    assert meta == [{"value": "19"}]


def test_every_table_can_be_read_and_has_the_columns_it_says(folder: Path) -> None:
    reading = open_folder(folder)
    for table in TABLES:
        found = ask(reading, Question(f"select * from {table.name}", rows=0))  # noqa: S608
        assert found.columns == [column.name for column in table.columns]
        assert len(found.rows) == len(list(table.rows(reading)))


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("delete from jobs", "nothing is changed"),
        ("update jobs set state = 'DONE'", "nothing is changed"),
        ("insert into meta values (1, 2)", "nothing is changed"),
        ("create table mine (a)", "nothing is changed"),
        ("attach 'other.db' as other", "nothing is changed"),
        ("pragma journal_mode = wal", "nothing is changed"),
        ("vacuum into 'copy.db'", "nothing is changed"),
        ("select load_extension('x')", "nothing is changed"),
        ("select 1; drop table jobs", "one question at a time"),
        ("select * from orders", "no such table: orders. `holdfast query --schema`"),
        ("selct 1", "syntax error"),
        ("select ?", "bindings"),
        (" ", "nothing was asked"),
        ("select randomblob(1000000000)", "too big"),
    ],
)
def test_what_is_no_question_is_told_in_a_line_and_leaves_everything(
    run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    done = run("query", sql, "--data", folder)
    assert (done.code, done.out) == (2, "")
    assert why in done.err
    assert len(done.err.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_question_that_never_ends_is_ended(folder: Path) -> None:
    endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n"
    with pytest.raises(CannotAnswer, match=r"longer than 0\.01 s"):
        ask(open_folder(folder), Question(endless, timeout_ms=10))


def test_more_rows_than_were_wanted_are_left_out_and_that_is_said(run, folder: Path) -> None:
    done = run("query", "select id from jobs order by id", "--limit", 1, "--data", folder)
    assert done.out == "ID\n1\n"
    assert "more than 1 rows; --limit 0 gives all" in done.err


def test_two_columns_of_one_name_are_told_apart(run, folder: Path) -> None:
    found = rows_of(run, folder, "select a.id, b.id from jobs a join jobs b on a.id = b.id limit 1")
    assert found == [{"id": "1", "id_2": "1"}]


def test_all_tables_can_be_taken_away_in_a_file(run, folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.db"
    done = run("query", "--export", target, "--data", folder)
    assert done.code == 0
    with sqlite3.connect(target) as database:
        found = dict(database.execute("select id, state from jobs").fetchall())
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
    assert found == {"1": "RUNNING", "2": "PENDING"}
    again = run("query", "--export", target, "--data", folder)
    assert (again.code, again.err.count("is there already")) == (1, 1)
    assert [path.name for path in tmp_path.iterdir() if "all" in path.name] == ["all.db"]


def test_an_export_that_fails_leaves_nothing_behind(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(reading: Reading) -> Iterator[tuple[object, ...]]:
        raise OSError("torn")
        yield ()

    broken = msgspec.structs.replace(TABLES[-1], rows=torn)
    monkeypatch.setattr(querying, "TABLES", (*TABLES[:-1], broken))
    with pytest.raises(OSError, match="torn"):
        export(open_folder(folder), tmp_path / "half.db")
    assert not [path for path in tmp_path.iterdir() if "half" in path.name]


def test_the_page_of_the_tables_is_what_the_tables_say(run) -> None:
    page = (ROOT / "docs" / "query.md").read_text()
    assert "\n".join(schema_lines()).strip() in page
    assert run("query", "--schema").out.strip() in page


def test_no_question_at_all_names_one(run) -> None:
    done = run("query")
    assert done.code == 2
    assert "holdfast query --schema" in done.err

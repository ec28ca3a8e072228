"""A live folder, copied while it is served, answers every command that looks as the server does."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import click
import pytest

from holdfast.cli.main import holdfast


def leaves(group: click.Group, path: tuple[str, ...] = ()):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


SQL = "select id, state, attempt from tasks order by id"


@pytest.fixture
def working(begin_server):
    """A server with a worker of its own."""
    return begin_server("--workers", "1")


@pytest.fixture
def call(working, typing):
    return typing(working)


@pytest.fixture
def story(call) -> str:
    """A job that went well, one that did not, and one that waits."""
    assert call("run", "--name", "well", "--", "true").code == 0
    assert call("run", "--name", "ill", "--", "false").code == 1
    waiting = call("submit", "--name", "waits", "--delay", "1h", "--", "true")
    assert waiting.code == 0, waiting.err
    return waiting.out.strip()


@pytest.mark.slow
def test_a_server_answers_questions_as_its_folder_does(call, working, story: str) -> None:
    there = json.loads(call("query", SQL, "-o", "json").out)
    here = json.loads(call("query", SQL, "--data", working.data, "-o", "json").out)
    assert there["rows"] == here["rows"]
    assert {row["state"] for row in here["rows"]} >= {"SUCCEEDED", "QUARANTINED", "WAITING"}
    before = json.loads(call("query", SQL, "--at", 2, "-o", "json").out)
    assert (before["position"], before["complete"]) == (2, True)
    changed = json.loads(call("diff", "--at", 2, "-o", "json").out)
    assert f"{story}" in {each["name"] for each in changed["changes"] if each["table"] == "jobs"}
    refused = call("query", "delete from jobs")
    assert (refused.code, refused.err.count("nothing is changed")) == (2, 1)
    assert call("diff", "--at", 10**9).code == 4


def test_a_server_gives_away_all_tables_as_its_folder_does(
    call, working, story: str, tmp_path: Path
) -> None:
    there, here, before = (tmp_path / f"{name}.db" for name in ("there", "here", "before"))
    told = call("query", "--export", there)
    assert told.code == 0, told.err
    assert call("query", "--export", here, "--data", working.data).out == told.out
    assert _jobs(there) == _jobs(here)
    assert len(_jobs(there)) == 3
    assert call("query", "--export", before, "--at", 2).code == 0
    assert len(_jobs(before)) < 3
    late = call("query", "--export", tmp_path / "late.db", "--at", 10**9)
    assert late.code == 4
    assert "Traceback" not in late.err
    assert {path.name for path in tmp_path.glob("*.db")} == {"there.db", "here.db", "before.db"}
    assert not list(tmp_path.glob(".*half"))


def _jobs(file: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute("select id, state from jobs order by id").fetchall()


@pytest.mark.slow
def test_a_copy_taken_while_it_is_served_answers_every_command_that_looks(
    call, working, story: str, tmp_path: Path
) -> None:
    copy = tmp_path / "laptop"
    shutil.copytree(working.data, copy, ignore_dangling_symlinks=True)
    asked = []
    for name, command in leaves(holdfast):
        options = {option for parameter in command.params for option in parameter.opts}
        # A fork is a new folder: whoever asks for one does more than look.
        if not {"--data", "--at"} <= options or name in ("query", "diff", "log fork"):
            continue
        arguments = [p for p in command.params if isinstance(p, click.Argument) and p.required]
        wanted = {
            "task": f"{story}/0", "job": story, "effect": f"{story}/0.0", "limit": "user/nobody",
            "quarantine": f"{story}/0",
        }  # fmt: skip
        noun = name.split()[0]
        named = [wanted.get(noun, "none-such")] if arguments else []
        more = ["--summary"] if name == "explain" else []
        done = call(*name.split(), *named, *more, "--data", copy)
        # Nothing of that name is an answer too; a traceback is none.
        assert done.code in ((0,) if noun in ("job", "task") else (0, 4)), (name, done)
        assert "Traceback" not in done.err
        asked.append(name)
    assert {"job list", "task history", "worker list", "token list"} <= set(asked)
    there = json.loads(call("query", SQL, "-o", "json").out)
    assert json.loads(call("query", SQL, "--data", copy, "-o", "json").out)["rows"] == there["rows"]

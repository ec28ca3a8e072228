"""`holdfast task history` of a folder: what touched one task."""

import json
from pathlib import Path

from holdfast.coordinator import trail


def test_the_history_of_a_task_is_read_from_a_folder(run, folder: Path) -> None:
    done = run("task", "history", "1/0", "--data", folder, "-o", "json")
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)["transactions"]
    assert [view["command"] for view in told] == [
        "SubmitJob", "GrantLeases", "StartAttempts", "FailAttempt", "GrantLeases", "StartAttempts",
        "CommitTasks",
    ]  # fmt: skip
    assert told[0]["time"] == "2023-11-14T22:13:20.000Z"


def test_the_history_ends_where_it_was_asked_to(run, folder: Path) -> None:
    names = run("task", "history", "1/0", "--data", folder, "--at", 4, "-o", "name").out.split()
    assert names == ["2", "3", "4"]
    heading, *rows = run("task", "history", "1/3", "--data", folder).out.splitlines()
    assert heading.split()[0] == "POSITION"
    assert len(rows) == 1


def test_a_history_with_holes_says_so(run, folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(trail, "MOST_READ", 0)
    done = run("task", "history", "1/2", "--data", folder, "-o", "name")
    assert "this is not all of it" in done.err
    assert len(done.out.split()) == 2

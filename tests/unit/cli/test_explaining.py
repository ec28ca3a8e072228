"""`explain` and `task history` of a folder: why a task is where it is, and what touched it."""

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


def codes(run, *arguments: object) -> list[str]:
    told = json.loads(run(*arguments, "-o", "json").out)
    return [reason["code"] for reason in told["reasons"]]


def test_a_folder_explains_where_its_tasks_are(run, folder: Path) -> None:
    """Without a server, and without guessing what only a server knows."""
    assert codes(run, "task", "explain", "1/0", "--data", folder) == ["finished"]
    assert codes(run, "task", "explain", "1/2", "--data", folder) == ["held"]
    assert codes(run, "task", "explain", "1/3", "--data", folder) == ["workers_unknown"]
    assert codes(run, "job", "explain", "2", "--data", folder) == ["workers_unknown"]
    done = run("task", "explain", "1/1", "--data", folder)
    assert done.out.startswith("task 1/1 is QUARANTINED\n- It ended QUARANTINED with attempt 3")
    # Orders are for a server; looks lead back to the folder.
    assert "    holdfast job retry 1\n" in done.out
    done = run("task", "explain", "1/0", "--data", folder)
    assert f"    holdfast task show 1/0 --data {folder}\n" in done.out


def test_a_folder_explains_how_it_was_then(run, folder: Path) -> None:
    assert codes(run, "task", "explain", "1/0", "--data", folder, "--at", 4) == ["held"]
    first, second = codes(run, "task", "explain", "1/0", "--data", folder, "--at", 5)
    assert (first, second) == ("backing_off", "workers_unknown")

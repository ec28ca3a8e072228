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


def test_so_much_is_told_as_is_asked_for(run, folder: Path) -> None:
    asked = ("task", "explain", "1/0", "--data", folder, "--at", 5)
    (key,) = run(*asked, "--level", 0).out.splitlines()
    assert key.startswith("task 1/0 is WAITING: It waits another ")
    plain = run(*asked).out
    assert (plain.count("\n- "), "code:" in plain) == (2, False)
    more = run(*asked, "-v").out
    assert "    code: backing_off\n" in more
    assert "    what helps: Wait, or reschedule it to now.\n" in more
    assert run(*asked, "--level", 4).code == 2


def test_what_everything_waits_for_is_counted(run, folder: Path) -> None:
    heading, row = run("explain", "--summary", "--data", folder).out.splitlines()
    assert heading.split() == ["REASON", "TASKS", "JOBS", "MEANS"]
    assert row.startswith("workers_unknown")
    told = json.loads(run("explain", "--summary", "--data", folder, "-o", "json").out)
    assert [reason["code"] for reason in told["reasons"]] == ["workers_unknown"]
    assert told["waiting"] == told["reasons"][0]["tasks"] > 0


def test_one_word_explains_jobs_and_tasks(run, folder: Path) -> None:
    for selector, noun in (("1", "job"), ("1/0", "task")):
        plain = run("explain", selector, "--data", folder)
        assert (plain.code, plain.out) == (0, run(noun, "explain", selector, "--data", folder).out)
    assert run("explain", "--data", folder).code == 2
    assert run("explain", "1", "--summary", "--data", folder).code == 2

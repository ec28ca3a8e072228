"""`holdfast task list` and `holdfast task show`."""

import json
from pathlib import Path

import pytest

from holdfast.testing.world import World

ATTEMPT_FIELDS = {
    *("id", "attempt", "status", "reason", "lease_id", "worker", "lease_expires_at"),
    *("started_at", "finished_at", "exit_code"),
}


def shown(run, folder: Path, task: str, *options: object) -> dict:
    done = run("task", "show", task, "--data", folder, "-o", "json", *options)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_tasks_of_a_job_are_listed_in_order(run, folder: Path) -> None:
    listed = run("task", "list", "1", "--data", folder, "-o", "json")
    tasks = json.loads(listed.out)["tasks"]
    assert [(task["id"], task["state"], task["attempt"]) for task in tasks] == [
        ("1/0", "SUCCEEDED", 2),
        ("1/1", "QUARANTINED", 3),
        ("1/2", "RUNNING", 1),
        ("1/3", "WAITING", 0),
    ]


def test_without_a_job_the_newest_is_meant(run, folder: Path) -> None:
    assert run("task", "list", "--data", folder, "-o", "name").out == "2/0\n2/1\n"


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("1/1-2",), "1/1\n1/2\n"),
        (("1", "--state", "quarantined"), "1/1\n"),
        (("1", "--state", "waiting,running"), "1/2\n1/3\n"),
        (("1", "--limit", "1"), "1/0\n"),
    ],
)
def test_a_list_of_tasks_can_be_narrowed(
    run, folder: Path, arguments: tuple[str, ...], found: str
) -> None:
    assert run("task", "list", *arguments, "--data", folder, "-o", "name").out == found


def test_a_task_that_succeeded_tells_of_every_attempt(run, folder: Path) -> None:
    task = shown(run, folder, "1/0")
    assert task["schema"] == 1
    assert (task["id"], task["state"], task["reason"]) == ("1/0", "SUCCEEDED", None)
    assert task["failures"] == {"used": 1, "allowed": 2}
    assert task["losses"] == {"used": 0, "allowed": 10}
    assert (task["error"], task["exit_code"], task["result_bytes"]) == (None, 0, 1)
    first, second = task["attempts"]
    assert set(first) >= ATTEMPT_FIELDS
    assert (first["id"], first["attempt"], first["status"]) == ("1/0:1", 1, "ABORTED")
    assert (first["reason"], first["charged"], first["exit_code"]) == ("failed", "failures", 1)
    assert first["worker"] == "w"
    assert first["started_at"] == "2023-11-14T22:13:20.100Z"
    assert (second["id"], second["status"], second["reason"]) == ("1/0:2", "DONE", None)
    assert second["finished_at"] == task["finished_at"] == "2023-11-14T22:13:20.950Z"
    assert second["duration_ms"] == 250
    assert first["lease_id"] < second["lease_id"]


def test_a_task_in_quarantine_tells_which_budget_is_spent_and_on_what(run, folder: Path) -> None:
    task = shown(run, folder, "1/1")
    assert (task["state"], task["reason"], task["error"]) == ("QUARANTINED", "failed", "boom")
    assert task["failures"] == {"used": 3, "allowed": 2}
    assert [attempt["attempt"] for attempt in task["attempts"]] == [1, 2, 3]


def test_a_running_task_tells_who_holds_it_and_until_when(run, folder: Path) -> None:
    task = shown(run, folder, "1/2")
    (attempt,) = task["attempts"]
    assert (attempt["id"], attempt["status"]) == ("1/2:1", "IN_PROGRESS")
    assert attempt["lease_expires_at"] == "2023-11-14T22:13:37.780Z"
    assert (attempt["finished_at"], attempt["exit_code"]) == (None, None)
    assert task["worker"] == "w"


def test_a_task_nobody_has_begun_has_no_attempts(run, folder: Path) -> None:
    task = shown(run, folder, "1/3")
    assert (task["attempts"], task["error"], task["exit_code"]) == ([], None, None)


def test_in_the_past_a_task_has_only_the_attempts_it_had_then(run, folder: Path) -> None:
    then = shown(run, folder, "1/0", "--at", 5)
    assert (then["state"], then["reason"], then["error"]) == ("WAITING", "failed", "boom")
    assert [attempt["attempt"] for attempt in then["attempts"]] == [1]
    assert then["failures"] == {"used": 1, "allowed": 2}
    assert then["not_before"] == "2023-11-14T22:13:20.600Z"


def test_a_task_is_shown_in_words_with_its_budgets_and_attempts(run, folder: Path) -> None:
    text = run("task", "show", "1/1", "--data", folder).out
    assert "state      QUARANTINED (failed)\n" in text
    assert "failures   3 of 2 allowed\n" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith("1/1:")] == [
        "1/1:1",
        "1/1:2",
        "1/1:3",
    ]


def test_several_tasks_are_a_list(run, folder: Path) -> None:
    done = run("task", "show", "1/0-1", "2/1", "--data", folder, "-o", "json")
    assert [task["id"] for task in json.loads(done.out)["tasks"]] == ["1/0", "1/1", "2/1"]
    lines = run("task", "show", "1/0-1", "--data", folder, "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["1/0", "1/1"]


@pytest.mark.parametrize(
    ("task", "code"), [("1/4", 4), ("9/0", 4), ("1", 2), ("1/a", 2), ("nobody", 4)]
)
def test_a_task_that_is_not_there_is_told_so(run, folder: Path, task: str, code: int) -> None:
    done = run("task", "show", task, "--data", folder)
    assert (done.code, done.out) == (code, "")


def test_a_traceback_is_shown_without_its_control_characters(run, write) -> None:
    world = World()
    world.submit("")
    (lease,) = world.grant("1", 0)
    world.start("1", 0, lease)
    from holdfast.core import commands as c
    from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
    from holdfast.core.reports import Failed

    report = Failed(
        JobId("1"), Index(0), LeaseId(lease), 0, "failed", "odd", "line 1\n\x1b[2J line 2", None
    )
    world.do(c.FailAttempt(worker=WorkerId("w"), incarnation=1, failed=report, roll=0.0))
    text = run("task", "show", "last", "--data", write(world)).out
    assert "line 1\n" in text
    assert "\x1b" not in text


def test_a_wide_table_has_the_lease_and_the_record_of_each_attempt(run, folder: Path) -> None:
    narrow = run("task", "show", "1/0", "--data", folder).out
    wide = run("task", "show", "1/0", "--data", folder, "-o", "wide").out
    assert "LEASE ID" in wide
    assert "LEASE ID" not in narrow
    (first,) = [line for line in wide.splitlines() if line.startswith("1/0:1")]
    assert first.split()[-2:] == ["failures", "5"]


def test_a_former_failure_is_not_told_of_the_attempt_under_way(run, folder: Path) -> None:
    task = shown(run, folder, "1/0", "--at", 7)
    assert (task["state"], task["reason"], task["error"]) == ("RUNNING", None, None)
    assert task["exit_code"] is None
    assert task["failures"]["used"] == 1
    assert [attempt["error"] for attempt in task["attempts"]] == ["boom", None]

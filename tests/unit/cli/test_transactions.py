"""`holdfast transactions`: the log as a story."""

import json
from pathlib import Path

from holdfast.testing.world import World


def test_a_transaction_has_the_promised_names(run, folder: Path) -> None:
    done = run("transactions", "--data", folder, "-o", "json")
    listed = json.loads(done.out)
    assert listed["schema"] == 1
    first = listed["transactions"][0]
    assert set(first) == {
        *("position", "time", "command", "actor", "request_id", "reason", "events", "actions"),
    }
    assert (first["position"], first["command"], first["actor"]) == (1, "OpenLog", "test")
    assert first["time"] == "2023-11-14T22:13:20.000Z"
    for transaction in listed["transactions"]:
        assert all(set(each) == {"action", "entity", "details"} for each in transaction["actions"])
        assert all("type" in event for event in transaction["events"])


def test_the_newest_are_shown_last_and_limited(run, folder: Path, story: World) -> None:
    lines = run("transactions", "--data", folder, "--limit", 3, "-o", "jsonl").out.splitlines()
    last = len(story.log)
    assert [json.loads(line)["position"] for line in lines] == [last - 2, last - 1, last]


def test_no_limit_shows_everything_kept(run, folder: Path, story: World) -> None:
    names = run("transactions", "--data", folder, "--limit", 0, "-o", "name").out.split()
    assert names == [str(position) for position in range(1, len(story.log) + 1)]


def test_the_past_ends_where_it_was_asked_to(run, folder: Path) -> None:
    done = run("transactions", "--data", folder, "--at", 4, "--limit", 2, "-o", "name")
    assert done.out == "3\n4\n"


def test_a_table_tells_the_first_actions_and_how_many_more(run, folder: Path) -> None:
    table = run("transactions", "--data", folder, "--at", 8, "--limit", 1).out
    heading, row = table.splitlines()
    assert heading.split() == ["POSITION", "TIME", "UTC", "COMMAND", "ACTOR", "ACTIONS"]
    assert row.split()[:5] == ["8", "11-14", "22:13:20.950", "CommitTasks", "test"]
    assert "task_succeeded 1/0" in row


def test_user_data_is_told_by_its_size_alone(run, folder: Path) -> None:
    done = run("transactions", "--data", folder, "--at", 2, "--limit", 1, "-o", "json")
    (event,) = json.loads(done.out)["transactions"][0]["events"]
    assert event["items"] == [{"bytes": 1}] * 4

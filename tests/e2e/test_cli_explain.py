"""`explain` and `history` typed at a real server: why it is so, and how it came to be."""

import json
from itertools import pairwise


def submitted(call, *options: object) -> str:
    return call("submit", *options, "--", "true").out.strip()


def test_a_job_that_waits_says_why_and_what_to_type(call_alone) -> None:
    job_id = submitted(call_alone)
    call_alone("queue", "pause", "default", "--reason", "maintenance")
    told = call_alone("job", "explain", job_id)
    assert told.code == 0
    first, *lines = told.out.splitlines()
    assert first == f"job {job_id} is PENDING"
    assert lines[0].startswith("- Queue default is paused by ")
    assert lines[0].endswith(": maintenance. (1 task)")
    # What it says to type is what helps.
    assert lines[1].strip() == "holdfast queue resume default"
    assert call_alone(*lines[1].split()[1:]).code == 0
    assert "holdfast worker start" in call_alone("job", "explain", "last").out
    view = json.loads(call_alone("task", "explain", f"{job_id}/0", "-o", "json").out)
    assert (view["schema"], view["id"], view["state"]) == (1, f"{job_id}/0", "WAITING")
    assert [reason["code"] for reason in view["reasons"]] == ["no_worker"]
    assert call_alone("job", "cancel", job_id).code == 0


def test_a_task_that_runs_or_has_ended_is_told_with_its_history(call, hand) -> None:
    job_id = submitted(call)
    taken = hand.take()
    assert f"Worker {hand.name}" in call("task", "explain", f"{job_id}/0").out
    hand.succeed(*taken)
    # A job of one task may be named alone.
    assert "It ended SUCCEEDED with attempt 1." in call("task", "explain", job_id).out
    told = json.loads(call("task", "history", f"{job_id}/0", "-o", "json").out)
    commands = [each["command"] for each in told["transactions"]]
    assert (commands[0], commands[-1]) == ("SubmitJob", "CommitTasks")
    assert "GrantLeases" in commands
    table = call("task", "history", job_id).out.splitlines()
    moves = [(each["from"], each["to"]) for each in told["transitions"]]
    states = ["NEW", "WAITING", "LEASED", "RUNNING", "SUCCEEDED"]
    assert moves == list(pairwise(states))
    assert len(table) == len(moves) + 1


def test_a_delay_is_told_with_its_end(served, call) -> None:
    job_id = submitted(call, "--delay", "1h")
    told = call("task", "explain", job_id).out
    assert "It was asked to begin later, in " in told
    assert "    until 2" in told
    assert f"holdfast task reschedule {job_id}/0 --now" in told


def test_what_is_not_there_is_not_explained(served, call) -> None:
    assert call("job", "explain", "99").code == 4
    job_id = submitted(call)
    assert call("task", "explain", f"{job_id}/7").code == 4
    assert call("job", "cancel", job_id).code == 0


def test_what_everything_waits_for_is_counted_listed_and_found_in_the_folder(
    served, call, hand
) -> None:
    first = submitted(call)
    taken = hand.take()
    job_id = submitted(call, "--cpus", "512", "--array", "3")
    told = json.loads(call("explain", "--summary", "-o", "json").out)
    counted = {each["code"]: each["tasks"] for each in told["reasons"]}
    assert counted["too_large"] == 3
    assert "too_large" in call("explain", "--summary").out
    (row,) = [each for each in call("job", "list").out.splitlines() if each.startswith(job_id)]
    assert row.split()[-1] == "too_large"
    every = call("explain", job_id, "-vv").out
    assert f"  {hand.name}: it has " in every
    # The folder says the same, without the server, from the notes of its fleet.
    key = call("explain", job_id, "--level", "0").out
    assert key.startswith(f"job {job_id} is PENDING: It fits on no worker: it needs 512 cpus")
    assert call("explain", job_id, "--level", "0", "--data", served.data).out == key
    hand.succeed(*taken)
    assert call("job", "cancel", job_id).code == 0
    ended = call("explain", first, "--level", "0").out
    assert ended == f"job {first} is SUCCEEDED: It ended SUCCEEDED.\n"

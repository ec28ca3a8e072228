"""`explain` and `history` typed at a real server: why it is so, and how it came to be."""

import json


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
    assert len(table) == len(commands) + 1


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

"""The command line against a real server: who may ask, who works, what is run and watched."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.testing.fleet import wait_until
from holdfast.wire.http import Http

COMMAND = (sys.executable, "-m", "holdfast")
PATIENCE_S = 60
LONG_TERM = ("--lease-term", "10m")
"""A worker that is played by hand says nothing between two steps, however long they take."""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(served) -> Iterator[Start]:
    """The command as a process, ended with the test if it has not ended by itself."""
    children: list[subprocess.Popen[str]] = []

    def begin(*arguments: object, **more: object) -> "subprocess.Popen[str]":
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        settings = {"env": served.environment, **streams, **more}
        child = subprocess.Popen([*COMMAND, *map(str, arguments)], text=True, **settings)
        children.append(child)
        return child

    yield begin
    for child in children:
        if child.poll() is None:
            child.kill()
        child.communicate(timeout=PATIENCE_S)


def newest(call) -> dict:
    return json.loads(call("job", "show", "last", "-o", "json").out)


def begun(child: "subprocess.Popen[str]") -> str:
    """The job of a `holdfast run` that has said so."""
    assert child.stderr is not None
    return child.stderr.readline().split()[1]


@pytest.mark.parametrize(
    "code", [7, *(pytest.param(n, marks=pytest.mark.slow) for n in (255, -9, 300))]
)
def test_run_ends_as_its_command_ended(start: Start, hand, code: int) -> None:
    child = start("run", "--name", "mine", "--", "sh", "-c", "exit 7")
    job_id = begun(child)
    ((run, index, lease),) = hand.take()
    assert (run.job_id, run.kind, run.task_count) == (job_id, "command", 1)
    hand.fail((run, index, lease), exit_code=code)
    out, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == {-9: 137, 300: 255}.get(code, code)
    assert out == ""
    assert f"holdfast task show {job_id}/0" in err


def test_run_that_goes_well_ends_with_zero(start: Start, hand) -> None:
    child = start("run", "--", "true")
    begun(child)
    hand.succeed(*hand.take())
    child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0


def test_a_real_worker_runs_what_the_shell_submits(begin_server, start: Start) -> None:
    server = begin_server("--workers", "1")

    def type_there(*arguments: object) -> tuple[int, str]:
        child = start(*arguments, env=server.environment)
        out, _ = child.communicate(timeout=PATIENCE_S)
        return child.returncode, out

    assert type_there("run", "--", "sh", "-c", "exit 7")[0] == 7
    assert type_there("run", "--env", "A=b c", "--", "sh", "-c", 'test "$A" = "b c"')[0] == 0
    assert type_there("run", "--", "no-such-program")[0] == 1
    third = "exit $((HOLDFAST_TASK_INDEX == 3))"
    code, job_id = type_there("submit", "--array", "5", "--wait", "--", "sh", "-c", third)
    assert code == 1
    failed = type_there("task", "list", "--state", "quarantined", "-o", "name")
    assert failed == (0, f"{job_id.strip()}/3\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_cancels_its_job(call, start: Start, number: int, code: int) -> None:
    child = start("run", "--delay", "1h", "--", "sleep", "60")
    job_id = begun(child)
    child.send_signal(number)
    _, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == code, err
    assert f"job {job_id} is cancelled" in err
    assert newest(call)["state"] == "KILLED"


def test_submit_can_wait(start: Start, hand) -> None:
    child = start("submit", "--wait", "--", "false")
    assert child.stdout is not None
    assert child.stdout.readline().strip().isdigit()
    hand.fail(*hand.take())
    child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 1


@pytest.mark.slow
def test_who_waits_is_told_that_nobody_works_and_goes_on_waiting_through_a_restart(
    begin_server, start: Start
) -> None:
    server = begin_server()

    def type_there(*arguments: object) -> "subprocess.Popen[str]":
        return start(*arguments, env=server.environment)

    submitting = type_there("submit", "--delay", "1h", "--", "true")
    job_id = submitting.communicate(timeout=PATIENCE_S)[0].strip()
    child = type_there("job", "wait", job_id, "-o", "name")
    assert child.stderr is not None
    assert "holdfast worker start" in child.stderr.readline()
    server.restart()
    type_there("job", "cancel", job_id).communicate(timeout=PATIENCE_S)
    out, err = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, out) == (3, f"{job_id}\n"), err


def test_workers_are_listed_shown_and_taken_out_of_service(begin_server, typing, hand_of) -> None:
    server = begin_server(*LONG_TERM)
    call, hand = typing(server), hand_of(server)
    job_id = call("submit", "--", "true").out.strip()
    (leased,) = hand.take()
    listed = json.loads(call("worker", "list", "-o", "json").out)["workers"]
    (mine,) = [worker for worker in listed if worker["name"] == hand.name]
    assert (mine["state"], mine["leases"], mine["slots"]) == ("BUSY", 1, 4)
    assert hand.name in call("worker", "list").out
    assert "zone=eu" in call("worker", "list", "-o", "wide").out
    text = call("worker", "show", hand.name).out
    assert f"{job_id}/0:1" in text
    assert "zone=eu" in text
    told = call("worker", "cordon", hand.name, "--reason", "new disk")
    assert (told.code, told.out) == (0, "")
    assert f"holdfast worker uncordon {hand.name}" in told.err
    assert "new disk" in call("worker", "show", hand.name).out
    assert call("worker", "uncordon", hand.name).code == 0
    drained = json.loads(call("worker", "drain", hand.name, "-o", "json").out)["workers"]
    assert [(each["name"], each["left"]) for each in drained] == [(hand.name, 1)]
    hand.succeed(leased)
    assert call("worker", "drain", hand.name, "--wait").code == 0
    assert call("worker", "uncordon", hand.name).code == 0


def test_workers_are_all_drained_before_one_is_waited_for(
    begin_server, typing, hand_of, start: Start
) -> None:
    server = begin_server(*LONG_TERM)
    call, hand = typing(server), hand_of(server)
    assert call("submit", "--", "true").code == 0
    (leased,) = hand.take()
    child = start("worker", "drain", hand.name, "other", "--wait", env=server.environment)

    def is_cordoned() -> bool:
        listed = json.loads(call("worker", "list", "-o", "json").out)["workers"]
        return "other" in [worker["name"] for worker in listed if worker["cordoned"]]

    wait_until(lambda: is_cordoned() or child.poll() is not None, PATIENCE_S)
    assert child.poll() is None
    hand.succeed(leased)
    told = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0
    assert "no worker other is there" in str(told)
    assert f"no worker {hand.name} is there" not in str(told)
    assert call("worker", "uncordon", hand.name, "other").code == 0


def test_a_paused_queue_gives_nothing_out(call, hand) -> None:
    assert call("queue", "pause", "night", "--reason", "too loud").code == 0
    waits = call("submit", "--queue", "night", "--", "true").out.strip()
    other = call("submit", "--", "true").out.strip()
    ((run, index, lease),) = hand.take()
    assert run.job_id == other
    listed = json.loads(call("queue", "list", "-o", "json").out)["queues"]
    (night,) = [queue for queue in listed if queue["name"] == "night"]
    assert (night["paused"], night["reason"]) == (True, "too loud")
    assert "PAUSED" in call("queue", "list").out
    assert call("queue", "resume", "night").code == 0
    hand.succeed((run, index, lease))
    ((run, index, lease),) = hand.take()
    assert run.job_id == waits
    hand.succeed((run, index, lease))


def test_a_token_may_what_it_was_made_for_and_nothing_once_revoked(
    call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = json.loads(call("token", "create", "eyes", "--scope", "read", "-o", "json").out)
    file = tmp_path / "token"
    file.write_text(made["token"] + "\n")
    assert call("job", "list", "--token-file", file).code == 0
    refused = call("submit", "--token-file", file, "--", "true")
    assert (refused.code, refused.out) == (6, "")
    assert "holdfast token create" in refused.err
    listed = json.loads(call("token", "list", "-o", "json").out)["tokens"]
    assert [(each["name"], each["scopes"]) for each in listed if each["id"] == made["id"]] == [
        ("eyes", ["read"])
    ]
    assert made["token"] not in call("token", "list", "-o", "json").out
    assert call("token", "revoke", made["id"]).code == 0
    closed = call("job", "list", "--token-file", file)
    assert (closed.code, closed.out) == (6, "")
    assert "--token-file" in closed.err
    monkeypatch.setenv("HOLDFAST_TOKEN", "hf_no_such")
    assert call("job", "list").code == 6


def test_the_line_to_paste_lets_a_worker_in_and_nothing_else(call, served) -> None:
    told = json.loads(call("worker", "token", "--ttl", "5m", "--name", "w9", "-o", "json").out)
    assert told["command"] == (
        f"HOLDFAST_TOKEN={told['token']} holdfast worker start --server {served.url} --name w9"
    )
    done = call("worker", "token")
    assert done.out.startswith("HOLDFAST_TOKEN=hf_")
    assert "this machine only" in done.err


def test_the_doctor_looks_at_everything_and_says_what_is_not_well(
    call, served, tmp_path: Path
) -> None:
    before = sorted(os.listdir(served.data))
    done = call("doctor", "--data", served.data, "-o", "json")
    assert sorted(os.listdir(served.data)) == before
    found = {check["name"]: check["state"] for check in json.loads(done.out)["checks"]}
    assert done.code == 0, done.out
    assert set(found) == {
        "token file", "server", "clock", "health", "token", "version", "workers", "versions",
        "memory cap", "space", "disk", "owner", "history", "drift", "results", "effects",
        "invariants", "room",
    }  # fmt: skip
    good = {name for name, state in found.items() if state == "GOOD"}
    assert {"token file", "server", "health", "token", "version", "history", "drift"} <= good
    told = {check["name"]: check["told"] for check in json.loads(done.out)["checks"]}
    assert f"process {served.process.pid} on" in told["owner"]
    file = tmp_path / "token"
    file.write_text("hf_no_such\n")
    file.chmod(0o600)
    closed = call("doctor", "--token-file", file, "--server", served.url)
    assert closed.code == 6
    assert "token" in closed.err
    lost = call("doctor", "--data", tmp_path / "nowhere", "-o", "json")
    assert (lost.code, json.loads(lost.out)["checks"][-1]["state"]) == (1, "BAD")


def test_a_watched_list_tells_programs_what_changes(call, start: Start) -> None:
    child = start("ps", "--watch", "-o", "jsonl", "--name", "watched")
    job_id = call("submit", "--delay", "1h", "--name", "watched", "--", "true").out.strip()
    assert child.stdout is not None
    assert json.loads(child.stdout.readline())["id"] == job_id
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 130
    assert call("job", "cancel", job_id).code == 0


def test_a_watched_list_is_painted_anew_on_a_terminal(call, start: Start) -> None:
    job_id = call("submit", "--delay", "1h", "--name", "painted", "--", "true").out.strip()
    ours, theirs = pty.openpty()
    child = start("job", "list", "-w", "--name", "painted", stdout=theirs)
    os.close(theirs)
    drawn = b""
    while b"PENDING" not in drawn:
        drawn += os.read(ours, 4096)
    assert call("job", "cancel", job_id).code == 0
    while b"KILLED" not in drawn:
        drawn += os.read(ours, 4096)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=PATIENCE_S)
    os.close(ours)
    assert drawn.count(b"\x1b[H\x1b[2J") >= 2


@pytest.mark.parametrize(
    ("answer", "code", "state"), [(b"n\n", 1, "PENDING"), (b"y\n", 0, "KILLED")]
)
def test_a_person_is_asked_before_many_are_stopped(
    call, start: Start, answer: bytes, code: int, state: str
) -> None:
    jobs = [call("submit", "--delay", "1h", "--", "true").out.strip() for _ in range(2)]
    ours, theirs = pty.openpty()
    child = start("job", "cancel", *jobs, stdin=theirs)
    os.close(theirs)
    os.write(ours, answer)
    _, err = child.communicate(timeout=PATIENCE_S)
    os.close(ours)
    assert child.returncode == code, err
    assert "Cancel 2 jobs?" in err
    assert newest(call)["state"] == state
    assert call("job", "cancel", *jobs, "--yes").code == 0


def test_the_admin_token_of_this_machine_is_not_sent_to_strangers(call, served, tmp_path) -> None:
    from holdfast.cli.asking import find_server

    assert find_server(None, None).token.value
    assert find_server("http://127.0.0.1:1", None).token.value
    assert find_server("https://elsewhere.example", None).token.value == ""
    named = find_server("https://elsewhere.example", served.token_file)
    assert named.token.value == served.token_file.read_text().strip()
    assert isinstance(named.http(), Http)

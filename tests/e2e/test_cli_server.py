"""The command line against a real server: looking, submitting, waiting, deciding."""

import json
import subprocess
import sys

import pytest


def submitted(call, *arguments: object) -> str:
    done = call("submit", *arguments)
    assert done.code == 0, done.err
    return done.out.strip()


def shown(call, *arguments: object) -> dict:
    done = call(*arguments, "-o", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_command_is_submitted_and_only_its_id_is_printed(call) -> None:
    done = call("submit", "--name", "hello", "--", "echo", "hello")
    assert done.code == 0, done.err
    assert done.out.strip().isdigit()
    assert done.err == ""
    told = json.loads(call("submit", "-o", "json", "--", "true").out)
    assert told == {"schema": 1, "id": str(int(done.out) + 1)}
    assert call("job", "cancel", done.out.strip()).code == 0
    assert call("job", "cancel", "last").code == 0


def test_everything_that_describes_a_job_reaches_it(call) -> None:
    job_id = submitted(
        call, "--array", 3, "--name", "thumbs", "--cpus", 2, "--memory", "512Mi", "--gpus", 1,
        "--retries", 4, "--max-losses", 5, "--timeout", "90s", "--priority", 7,
        "--queue", "night", "--namespace", "team", "-l", "a=b", "--label", "c=d=e",
        "--max-parallel", 2, "--deadline", "2h", "--delay", "1h", "--on-disconnect", "stop",
        "--", "convert", "-o", "x.png",
    )  # fmt: skip
    job = shown(call, "job", "show", job_id)
    spec = job["spec"]
    assert (job["name"], job["tasks"], spec["kind"], spec["target"]) == (
        *("thumbs", 3, "command", "convert"),
    )
    assert (spec["cpus"], spec["memory_bytes"], spec["gpus"]) == (2.0, 512 * 2**20, 1)
    assert (spec["retries"], spec["max_losses"], spec["timeout_ms"]) == (4, 5, 90_000)
    assert (spec["priority"], spec["namespace"], spec["max_parallel"]) == (7, "team", 2)
    assert spec["labels"] == {"a": "b", "c": "d=e"}
    assert job["deadline"] is not None
    assert job["not_before"] is not None
    for options in (("-l", "c=d=e"), ("--queue", "night"), ("--namespace", "team")):
        assert call("job", "list", *options, "-o", "name").out == f"{job_id}\n"
    assert call("job", "cancel", job_id).code == 0


def timeless(value):
    """The same without its times: two readers of two clocks may differ by a millisecond."""
    if isinstance(value, dict):
        times = ("time", "duration_ms")
        kept = {k: v for k, v in value.items() if k not in times and not k.endswith("_at")}
        return {name: timeless(inner) for name, inner in kept.items()}
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "looking",
    [
        ("job", "show", "last"),
        ("job", "list"),
        ("job", "list", "--state", "succeeded"),
        ("job", "list", "--name", "bo*", "--limit", "1"),
        ("task", "list"),
        ("task", "list", "last/1"),
        ("task", "show", "last/1"),
    ],
)
def test_a_server_and_its_folder_show_the_same(call, served, hand, looking) -> None:
    submitted(call, "--array", 2, "--name", "both", "--", "true")
    hand.succeed(*hand.take(2))
    here = shown(call, *looking)
    there = shown(call, *looking, "--data", served.data)
    assert timeless(here) == timeless(there)
    words = call(*looking)
    assert words.code == 0
    assert words.out


def test_transactions_of_a_server_are_those_of_its_log_and_what_it_only_saw(call, served) -> None:
    job_id = submitted(call, "--delay", "1h", "--", "true")
    assert call("job", "cancel", job_id).code == 0
    told = shown(call, "transactions", "--limit", "9")["transactions"]
    logged = shown(call, "transactions", "--limit", "9", "--data", served.data)["transactions"]
    recorded = [each for each in told if each["position"] is not None]
    assert recorded[-2:] == logged[-2:]
    assert [each["command"] for each in recorded[-2:]] == ["SubmitJob", "KillJob"]
    assert call("transactions", "-o", "name", "--limit", "1").out.strip().isdigit()
    assert "KillJob" in call("transactions", "--limit", "2").out


def test_a_job_is_waited_for_and_its_end_is_the_exit_code(call, hand) -> None:
    good = submitted(call, "--", "true")
    hand.succeed(*hand.take())
    bad = submitted(call, "--", "false")
    hand.fail(*hand.take())
    stopped = submitted(call, "--", "sleep", "9")
    assert call("job", "cancel", stopped, "--reason", "not needed").code == 0
    done = call("job", "wait", good)
    assert (done.code, done.out.split()[-7:-4]) == (0, ["SUCCEEDED", "1/1", "-"])
    assert call("job", "wait", good, bad).code == 1
    assert call("job", "wait", stopped).code == 3
    assert call("job", "wait", stopped, bad).code == 1
    assert call("job", "wait", bad, stopped, "--ignore-failures").code == 0
    assert call("job", "wait", good, "--for", "state=succeeded").code == 0
    assert call("job", "wait", bad, "--for=state=succeeded").code == 1
    assert call("job", "wait", stopped, "--for=state=succeeded").code == 3
    missed = call("job", "wait", good, "--for=state=running")
    assert (missed.code, "cannot come" in missed.err) == (1, True)
    assert call("job", "wait", good, "--for", "happiness").code == 2


def test_a_wait_that_takes_too_long_is_code_124(call) -> None:
    job_id = submitted(call, "--delay", "1h", "--", "true")
    done = call("job", "wait", job_id, "--timeout", "50ms")
    assert (done.code, done.out) == (124, "")
    assert f"holdfast job show {job_id}" in done.err
    ended = submitted(call, "--delay", "1h", "--", "true")
    assert call("job", "cancel", ended).code == 0
    # The one that has not ended is named, not the first.
    assert f"job {job_id} was" in call("job", "wait", ended, job_id, "--timeout", "50ms").err
    assert call("job", "wait", job_id, "--for=pending", "--timeout", "1s").code == 0
    assert call("job", "cancel", job_id).code == 0


def test_stopping_more_than_one_needs_a_yes_and_can_be_looked_at_first(call) -> None:
    first = submitted(call, "--delay", "1h", "--", "true")
    second = submitted(call, "--delay", "1h", "--", "true")
    refused = call("job", "cancel", first, second)
    assert (refused.code, refused.out) == (2, "")
    assert "--yes" in refused.err
    looked = call("job", "cancel", f"{first}-{second}", "--dry-run", "-o", "name")
    assert (looked.code, looked.out.split()) == (0, [first, second])
    assert call("ps", "-o", "name").out.split() == [second, first]
    done = call("job", "cancel", "all", "--yes", "--reason", "done here", "-o", "json")
    told = json.loads(done.out)
    assert (told["state"], told["outcomes"]) == ("DONE", {"jobs": 2, "tasks": 2})
    assert f"holdfast operation undo {told['id']}" in done.err
    assert call("ps", "-o", "name").out == ""
    again = call("job", "cancel", first)
    assert again.code == 0
    assert "nothing of" in again.err
    kill, end = shown(call, "transactions", "--limit", "2")["transactions"]
    assert (kill["command"], kill["reason"], kill["request_id"]) == (
        "KillJob", "done here", told["id"],
    )  # fmt: skip
    assert end["command"] == "EndOperation"
    assert shown(call, "operation", "show", "last")["id"] == told["id"]
    undone = call("operation", "undo", "last")
    assert undone.code == 0, undone.err
    assert "2 tasks of 2 jobs were put back" in undone.err
    assert call("ps", "-o", "name").out.split() == [second, first]
    refused = call("operation", "undo", told["id"])
    assert refused.code == 5
    assert call("job", "cancel", "--name", "true", "--yes").code == 0


def test_tasks_are_stopped_moved_and_sent_back_one_by_one(call, hand) -> None:
    job_id = submitted(call, "--array", 6, "--delay", "1h", "--", "true")
    assert call("task", "cancel", f"{job_id}/0-4:2").code == 2
    assert call("task", "cancel", f"{job_id}/0-4:2", "--yes").code == 0
    moved = call("task", "reschedule", f"{job_id}/1", "--now", "-o", "name")
    assert (moved.code, moved.out) == (0, f"{job_id}/1\n")
    assert call("task", "reschedule", f"{job_id}/1").code == 2
    assert call("task", "reschedule", f"{job_id}/0", "--delay", "5m").code == 5
    hand.fail(*hand.take())
    states = [view["state"] for view in shown(call, "task", "list", job_id)["tasks"]]
    assert states == ["KILLED", "QUARANTINED", "KILLED", "WAITING", "KILLED", "WAITING"]
    listed = call("task", "list", job_id, "--state", "killed", "-o", "name")
    assert listed.out.split() == [f"{job_id}/{index}" for index in (0, 2, 4)]
    retried = call("job", "retry", f"{job_id}/1", "--reason", "try again", "-o", "json")
    assert json.loads(retried.out)["jobs"] == [{"id": job_id, "retried": 1}]
    hand.succeed(*hand.take())
    assert shown(call, "task", "show", f"{job_id}/1")["state"] == "SUCCEEDED"
    assert call("job", "cancel", job_id).code == 0


def test_a_list_of_many_pages_is_one_list(call, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [submitted(call, "--delay", "1h", "--name", "paged", "--", "true") for _ in range(5)]
    tasks = submitted(call, "--delay", "1h", "--array", 7, "--", "true")
    monkeypatch.setattr("holdfast.cli.servers.PAGE", 2)
    found = call("job", "list", "--name", "paged", "-o", "name")
    assert found.out.split() == made[::-1]
    some = call("job", "list", "--name", "paged", "-o", "name", "--limit", "3")
    assert (some.out.split(), "--limit 0" in some.err) == (made[:1:-1], True)
    listed = call("task", "list", tasks, "-o", "name")
    assert listed.out.split() == [f"{tasks}/{index}" for index in range(7)]
    some = call("task", "list", f"{tasks}/1-5:2", "-o", "name", "--limit", "2")
    assert some.out.split() == [f"{tasks}/1", f"{tasks}/3"]
    assert call("job", "cancel", *made, tasks, "--yes").code == 0


def test_a_key_finds_the_job_it_made(call) -> None:
    first = submitted(call, "--key", "nightly", "--", "true")
    assert submitted(call, "--key", "nightly", "--", "true") == first
    other = call("submit", "--key", "nightly", "--", "false")
    assert (other.code, other.out) == (5, "")
    assert call("job", "cancel", first).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("job", "show", "99999"), 4, "holdfast job list"),
        (("job", "show", "nobody"), 4, "holdfast job list"),
        (("job", "show", "400-500"), 4, "holdfast job list"),
        (("task", "show", "1/99"), 4, "holdfast task list 1"),
        (("job", "cancel", "nobody"), 4, "holdfast job list"),
        (("worker", "show", "nobody"), 4, "holdfast worker list"),
        (("job", "list", "--at", "3"), 2, "--data"),
        (("job", "list", "--token-file", "no-such-file"), 2, "no-such-file"),
        (("job", "list", "--server", "ftp://x"), 2, "unix:"),
        (("submit",), 2, "--help"),
        (("submit", "--timeout", "soon", "--", "true"), 2, "90s"),
        (("submit", "--not-before", "soon", "--", "true"), 2, "--not-before"),
        (("submit", "--label", "odd", "--", "true"), 2, "KEY=VALUE"),
        (("submit", "--env", "NO_SUCH_VARIABLE", "--", "true"), 2, "NO_SUCH_VARIABLE"),
        (("submit", "--array", "1000000000000", "--", "true"), 2, "at most"),
        (("token", "create", "x", "--scope", "everything"), 2, "submit, read"),
        (("get", "pods"), 2, "worker"),
    ],
)
def test_a_mistake_is_told_with_its_code_and_what_to_do(
    call, arguments: tuple[str, ...], code: int, words: str
) -> None:
    submitted(call, "--delay", "1h", "--", "true")
    done = call(*arguments)
    assert (done.code, done.out) == (code, ""), done.err
    assert done.err.startswith("holdfast: ")
    assert words in done.err
    assert call("job", "cancel", "last").code == 0


def test_a_dry_run_shows_what_would_be_asked_and_become_of_it_and_records_nothing(call) -> None:
    before = call("job", "list", "-o", "name").out
    done = call("submit", "--dry-run", "--env", "A=secret", "-o", "json", "--", "ls", "-l")
    told = json.loads(done.out)
    assert told["command"] == {"argv": ["ls", "-l"], "env": {"A": "secret"}}
    assert told["foreseen"]["tasks"] == 1
    shown = call("submit", "--dry-run", "--cpus", "512", "--", "ls", "-l").out
    assert '["ls","-l"]' in shown
    assert "0 of 1 tasks would start now; it fits on 0 of " in shown
    assert call("job", "list", "-o", "name").out == before


def test_other_habits_find_the_same(call) -> None:
    job_id = submitted(call, "--delay", "1h", "--name", "habit", "--", "true")
    assert call("get", "jobs", "-o", "name").out == call("job", "list", "-o", "name").out
    assert call("get", "job", job_id, "-o", "json") == call("job", "show", job_id, "-o", "json")
    assert call("describe", "job", job_id) == call("job", "show", job_id)
    assert call("get", "tasks", job_id) == call("task", "list", job_id)
    assert call("get", "queues", "-o", "name").out == call("queue", "list", "-o", "name").out
    assert call("job", "cancel", job_id).code == 0


@pytest.mark.parametrize(
    ("options", "strangers"),
    [
        (("--data", "FOLDER"), ("httptools", "holdfast.wire.http")),
        ((), ("holdfast.coordinator", "holdfast.wal", "holdfast.worker", "holdfast.api")),
    ],
)
def test_a_look_loads_only_what_it_needs(served, options, strangers) -> None:
    told = [str(served.data) if each == "FOLDER" else each for each in options]
    program = (
        "import sys\n"
        "from holdfast.cli.main import main\n"
        f"code = main(['job', 'list', '-o', 'quiet', *{told!r}])\n"
        f"print([name for name in {strangers!r} if name in sys.modules], code, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=served.environment,
    )
    assert done.stderr == "[] 0\n"

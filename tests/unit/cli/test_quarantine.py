"""`holdfast quarantine list|show|stats` of a folder: now, and at moments of the past."""

import json
from pathlib import Path

from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId
from holdfast.core.spec import JobSpec
from holdfast.testing.world import World

# Job 1's second task spent its budget at this position; the story goes on a little.
PLAIN = JobSpec(name="cubes", kind="function", target="shop:cube", retries=0)


def sick() -> World:
    """Three tasks of `cubes` have failed alike, one of `spheres` was put aside by hand."""
    world = World()
    world.submit("", 3, spec=PLAIN)
    for index, lease_id in enumerate(world.grant("1", 0, 1, 2)):
        world.start("1", index, lease_id)
        world.fail("1", index, lease_id)
        world.sleep(1_000)
    world.submit("", 2, spec=JobSpec(name="spheres", kind="function", target="shop:sphere"))
    world.do(c.SetAside(job_id=JobId("2"), indices=(Index(1),), note="disk 3 is bad"))
    return world


def test_the_same_failures_are_listed_together(run, write):
    state = write(sick())
    found = run("quarantine", "list", "--data", state)
    assert found.code == 0
    assert found.out.split()[:3] == ["COUNT", "REASON", "ERROR"]
    rows = [line.split() for line in found.out.splitlines()[1:]]
    assert [(row[0], row[1]) for row in rows] == [("3", "failed"), ("1", "operator")]
    told = json.loads(run("quarantine", "list", "--data", state, "-o", "json").out)
    assert told["schema"] == 1
    assert [group["count"] for group in told["groups"]] == [3, 1]
    assert told["groups"][0]["sample"] == "1/2"
    names = run("quarantine", "list", "--data", state, "-o", "name")
    assert names.out.split() == [group["fingerprint"] for group in told["groups"]]


def test_every_task_for_itself_narrowed_and_cut(run, write):
    state = write(sick())
    look = ("quarantine", "list", "--flat", "--data", state, "-o", "jsonl")

    def ids(*options: str) -> list[str]:
        lines = run(*look, *options).out.splitlines()
        return [json.loads(line)["id"] for line in lines]

    assert ids() == ["2/1", "1/0", "1/1", "1/2"]
    assert ids("--reason", "operator") == ["2/1"]
    assert ids("--reason", "operator,failed", "--name", "cu*") == ["1/0", "1/1", "1/2"]
    assert ids("--job", "1", "--limit", "2") == ["1/0", "1/1"]
    mark = json.loads(run(*look).out.splitlines()[0])["fingerprint"]
    assert ids("--fingerprint", f"fp:{mark[:5]}") == ["2/1"]
    # At its third failure the first was two seconds ago.
    assert ids("--older-than", "2s", "--at", "9") == ["1/0"]


def test_as_it_was_at_a_moment_of_the_past(run, write):
    world = sick()
    failed = (at for at, record in world.records() if record.command == "FailAttempt")
    before = next(failed)
    state = write(world)
    found = run("quarantine", "list", "--flat", "--data", state, "--at", before, "-o", "jsonl")
    assert [json.loads(line)["id"] for line in found.out.splitlines()] == ["1/0"]
    found = run("quarantine", "list", "--data", state, "--at", before - 1)
    assert (found.code, found.out) == (0, "")
    assert "nothing is in quarantine" in found.err


def test_one_is_shown_with_why_and_what_to_type_next(run, write):
    state = write(sick())
    found = run("quarantine", "show", "1/0", "--data", state)
    assert found.code == 0
    for words in ("failed", "boom", "1/0:1", "holdfast task logs 1/0 --data"):
        assert words in found.out
    assert "Next: holdfast quarantine retry 1/0\n" in found.out
    found = run("quarantine", "show", "2/0", "--data", state)
    assert found.code == 4
    assert "is not in quarantine; `holdfast task show 2/0" in found.err


def test_the_numbers_of_it(run, write):
    state = write(sick())
    told = json.loads(run("quarantine", "stats", "--data", state, "-o", "json").out)
    assert told["total"] == 4
    assert told["by_reason"] == {"failed": 3, "operator": 1}
    assert told["by_function"] == {"shop:cube": 3, "shop:sphere": 1}
    assert told["by_worker"] == {"w": 3, "none": 1}
    found = run("quarantine", "stats", "--data", state)
    assert "in quarantine" in found.out
    assert "shop:cube" in found.out
    nameless = run("quarantine", "stats", "--data", state, "-o", "name")
    assert (nameless.code, nameless.out) == (2, "")
    assert nameless.err == "holdfast: this has no name of its own; -o json tells all of it.\n"


def test_a_mistake_is_one_line(run, folder: Path):
    found = run("quarantine", "list", "--reason", "boredom", "--data", folder)
    assert found.code == 2
    assert "write one of failed, timeout, oom" in found.err
    assert run("quarantine", "list", "--older-than", "soon", "--data", folder).code == 2
    found = run("quarantine", "purge", "--all")
    assert found.code == 2
    assert "--note" in found.err


def test_what_was_given_up_is_in_the_history_of_its_task(run, write):
    world = sick()
    world.do(c.PurgeTasks(job_id=JobId("1"), indices=(Index(0),), reason="not needed"))
    state = write(world)
    task = json.loads(run("task", "show", "1/0", "--data", state, "-o", "json").out)
    assert (task["state"], task["reason"]) == ("KILLED", "purged")
    assert [attempt["reason"] for attempt in task["attempts"]] == ["failed"]
    history = run("task", "history", "1/0", "--data", state).out
    assert "QUARANTINED → KILLED" in history
    assert "not needed" in history


def test_what_was_forced_is_in_the_history_of_its_task(run, write):
    world = sick()
    command = c.ForceTask(
        job_id=JobId("2"), index=Index(0), target="QUARANTINED", reason="look first"
    )
    world.do(command, reason="look first")
    state = write(world)
    told = run("task", "history", "2/0", "--data", state, "-o", "json").out
    assert "task_forced" in told
    assert "look first" in told

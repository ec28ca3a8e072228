"""Wishes as options: what is sent, and what is told to whoever made a mistake. Nobody is asked."""

import json

import click
import pytest

from holdfast.cli.edits import edits_of
from holdfast.wire.bodies import Edits

# What would be asked is shown though nobody answers.
pytestmark = pytest.mark.usefixtures("nobody_there")


def preview(run, *options: object) -> dict:
    done = run("submit", "--dry-run", "-o", "json", *options, "--", "true")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told.pop("foreseen") is None
    return told


def test_options_become_what_is_asked_for(run) -> None:
    told = preview(
        run, "--resource", "licence=1", "--resource", "scratch=0.5", "--require", "zone == eu",
        "--prefer", "disk == ssd", "--prefer", "50 zone == us", "--spread", "pack", "--gang",
        "--gang-by", "rack", "--concurrency", "customer-42=1", "--concurrency", "k", "--preempt",
        "--after", "12/3:failure", "--after", "13", "--on-failed-parent", "wait", "--parent", "7",
        "--detached", "--key", "nightly", "--unique-for", "1h", "--existing", "replace",
        "--must-fit",
    )  # fmt: skip
    assert told["resources"] == {"licence": 1.0, "scratch": 0.5}
    assert told["constraints"] == ["zone == eu", "1 disk == ssd", "50 zone == us"]
    assert told["keys"] == {"customer-42": 1, "k": 0}
    assert told["after"] == [{"job": "12", "task": 3, "condition": "failure"}, {"job": "13"}]
    for name, value in {
        "spread": "pack", "gang": True, "gang_by": "rack", "preempt": True, "parent": "7",
        "on_failed_parent": "wait", "detached": True, "unique_for": "1h", "existing": "replace",
        "must_fit": True,
    }.items():  # fmt: skip
        assert told[name] == value, name


def test_what_is_not_said_is_not_sent(run) -> None:
    assert set(preview(run)) == {"schema", "kind", "command", "cpus", "retry"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--resource", "licence"), "is not NAME=N"),
        (("--resource", "licence=-1"), "must lie between"),
        (("--resource", "a=1", "--resource", "a=2"), "'a' is named twice"),
        (("--resource", "cpus=1"), "field of its own"),
        (("--require", "zone ~ eu"), "unknown operator '~'"),
        (("--require", "zone =~ eu"), "unknown operator '=~'"),
        (("--concurrency", "k=0"), "k alone is bounded by"),
        (("--require", "zone"), "is no constraint"),
        (("--require", "5 zone == eu"), "what is required has no weight"),
        (("--require", "cores >= many"), "compares numbers"),
        (("--prefer", "0 zone == eu"), "weighs 1 to 100"),
        (("--prefer", "500 zone == eu"), "weighs 1 to 100"),
        (("--spread", "wide"), "pack"),
        (("--gang-by", "rack"), "without a gang"),
        (("--concurrency", "k=-1"), "is not KEY=N"),
        (("--concurrency", "k=1", "--concurrency", "k=2"), "named twice"),
        (("--after", "12:maybe"), "unknown condition"),
        (("--after", "12/x"), "names no task"),
        (("--on-failed-parent", "shrug"), "fail"),
        (("--parent", "current"), "HOLDFAST_JOB_ID is not set here"),
        (("--unique-for", "soon"), "not a duration"),
        (("--existing", "shrug"), "keep"),
    ],
)
def test_a_mistake_is_told_by_its_option_before_anybody_is_asked(run, options, told) -> None:
    done = run("submit", "--dry-run", *options, "--", "true")
    assert (done.code, done.out) == (2, "")
    assert told in done.err


def test_the_job_that_a_command_runs_in_is_its_parent(run, monkeypatch) -> None:
    monkeypatch.setenv("HOLDFAST_JOB_ID", "42")
    assert preview(run, "--parent", "current")["parent"] == "42"


def test_terms_are_written_as_pairs() -> None:
    assert edits_of(()) is None
    told = ("retries=5", "memory=4Gi", "preempt=true", "cpus=0.5", 'resources={"licence": 2}')
    assert edits_of((*told, 'constraints=["zone == a"]', "queue=")) == Edits(
        retries=5, memory="4Gi", preempt=True, cpus=0.5, resources={"licence": 2.0},
        constraints=["zone == a"], queue="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("retries", "is not NAME=VALUE"),
        ("target=rm", "no 'target'"),
        ("retries=many", "retries"),
        ("labels={", "labels"),
        ("labels=x", "labels"),
    ],
)
def test_terms_that_make_no_sense_are_told(text: str, told: str) -> None:
    with pytest.raises(click.BadParameter, match=told):
        edits_of((text,))
    with pytest.raises(click.BadParameter, match="named twice"):
        edits_of(("retries=1", "retries=2"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("limit", "set", "key/k"), "say how much"),
        (("limit", "set", "queue/k", "--running", "1"), "is not namespace/NAME"),
        (("limit", "set", "key/", "--running", "1"), "is not namespace/NAME"),
        (("limit", "set", "key/k", "--running", "-1"), "--running"),
        (("limit", "set", "key/k", "--running", "0"), "none takes the bound away"),
        (("limit", "set", "key/k", "--running", "two"), "'two' is not N"),
        (("limit", "set", "key/k", "--cpus", "0"), "would let nothing run"),
        (("limit", "set", "key/k", "--memory", "much"), "is not SIZE"),
        (("limit", "set", "key/k", "--resource", "licence"), "is not NAME=N"),
        (("limit", "set", "key/k", "--resource", "cpus=2"), "has a field of its own"),
        (("limit", "set", "key/k", "--rate", "often"), "10/1m"),
        (("limit", "set", "namespace/n", "--weight", "0"), "--weight"),
        (("limit", "clear", "nothing"), "is not namespace/NAME"),
        (("limit", "show", "nothing"), "is not namespace/NAME"),
        (("job", "retry", "1", "--set", "target=rm"), "no 'target'"),
        (("circuit", "open", "nothing"), "is not function/NAME"),
        (("circuit", "close", "queue/x"), "is not function/NAME"),
        (("submit", "--circuit", "often", "--", "x"), "5/1m"),
        (("submit", "--retry-budget", "5", "--", "x"), "100/1m"),
    ],
)
def test_limits_and_terms_are_checked_before_anybody_is_asked(run, arguments, told) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert told in done.err


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("holdfast limit ", {"list", "show", "set", "clear"}),
        ("holdfast limit set ke", {"key/"}),
        ("holdfast circuit ", {"list", "open", "close"}),
        ("holdfast circuit close ", {"function/", "sink/"}),
        ("holdfast limit clear ", {"namespace/", "user/", "key/"}),
        ("holdfast submit --spread ", {"pack", "spread"}),
        ("holdfast submit --existing re", {"replace", "refuse"}),
        ("holdfast submit --on-failed-parent ", {"fail", "wait"}),
        ("holdfast job retry --set mem", {"memory="}),
    ],
)
def test_choices_are_completed(run, words: str, found: set[str], monkeypatch) -> None:
    monkeypatch.setenv("_HOLDFAST_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    assert {line.partition(",")[2] for line in run().out.split()} == found


def test_limits_of_a_folder_are_read_at_any_moment(run, write, story) -> None:
    from holdfast.core import commands as c

    before = story.state.position
    story.submit("", 1)
    story.do(c.SetLimit(scope="key", name="k", running=2, starts=10, per_ms=60_000))
    folder = write(story)
    found = json.loads(run("limit", "list", "--data", folder, "-o", "json").out)["limits"]
    assert [(each["id"], each["running"], each["rate"]) for each in found] == [
        ("key/k", 2, "10/1m")
    ]
    table = run("limit", "list", "--data", folder).out.splitlines()
    assert table[0].split() == ["LIMIT", "IN", "USE", "RUNNING", "RATE", "WEIGHT", "TAKEN"]
    assert run("limit", "show", "key/k", "--data", folder).code == 0
    then = run("limit", "show", "key/k", "--data", folder, "--at", before)
    assert then.code == 4
    assert "holdfast limit list --data" in then.err


def test_circuits_of_a_folder_are_read_at_any_moment(run, write, story) -> None:
    from holdfast.core import commands as c

    before = story.state.position
    story.do(c.OpenCircuit(kind="function", name="m:f", reason="it burns"))
    folder = write(story)
    (found,) = json.loads(run("circuit", "list", "--data", folder, "-o", "json").out)["circuits"]
    assert (found["id"], found["state"]) == ("function/m:f", "OPEN")
    assert found["cause"] == "opened by hand: it burns"
    table = run("circuit", "list", "--data", folder).out.splitlines()
    assert table[0].split() == ["CIRCUIT", "STATE", "FAILURES", "SINCE", "HALF-OPENS", "CAUSE"]
    then = run("circuit", "list", "--data", folder, "--at", before)
    assert "is closed" in then.err


def test_a_dry_run_without_a_server_says_that_nobody_can_tell(run) -> None:
    done = run("submit", "--dry-run", "--", "true")
    assert done.code == 0
    assert "no server answered: nobody can say whether it would start" in done.err

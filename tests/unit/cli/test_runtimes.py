"""Class runtimes as people look at them: why one is not up, what to do, what it was before."""

import json
from pathlib import Path

import pytest
import yaml

from holdfast.cli.runtime_texts import next_step
from holdfast.core import commands_resources as r
from holdfast.runtimes.documents import encode_status
from holdfast.runtimes.manifest import encode
from holdfast.runtimes.resource import FINALIZER, KIND
from holdfast.runtimes.status import Phase
from holdfast.testing.model_runtime import ModelRuntime, a_resource, declared, function
from holdfast.testing.world import World


def put(world: World, name: str, runtime: ModelRuntime) -> None:
    """Declare it as it was declared, and write down what is known of it."""
    world.did(r.PutResource(kind=KIND, name=name, spec=encode(runtime.resource.spec)))
    world.did(r.SetResourceFinalizers(kind=KIND, name=name, finalizers=(FINALIZER,)))
    told(world, name, runtime)


def told(world: World, name: str, runtime: ModelRuntime) -> None:
    status = encode_status(runtime.resource.status)
    world.did(r.PutResourceStatus(kind=KIND, name=name, status=status))
    world.sleep(1_000)


def crashing() -> ModelRuntime:
    spec = declared(functions=[function(), function("bad", "crash")])
    runtime = ModelRuntime(a_resource(spec))
    runtime.reach(Phase.DEGRADED)
    return runtime


@pytest.fixture(scope="module")
def folder(write_once) -> Path:
    """One that is up, one that crashes, and one that goes."""
    world = World()
    up = ModelRuntime(a_resource(declared(functions=[function(replicas=2)])))
    put(world, "greeter", up)
    up.reach(Phase.AVAILABLE)
    told(world, "greeter", up)
    put(world, "unlucky", crashing())
    put(world, "leaving", ModelRuntime(a_resource()))
    world.did(r.MarkResourceDeleted(kind=KIND, name="leaving"))
    return write_once(world)


def test_a_list_says_of_each_how_far_it_is_and_why(run, folder):
    done = run("runtime", "list", "--data", folder)
    assert done.code == 0, done.err
    rows = {line.split()[0]: line for line in done.out.splitlines()}
    assert " available " in rows["greeter"]
    assert " 1/1 " in rows["greeter"]
    assert " 2/2 " in rows["greeter"]
    assert " degraded " in rows["unlucky"]
    assert "restart count" in rows["unlucky"]
    assert run("runtime", "list", "--data", folder, "-o", "name").out.split() == [
        "greeter", "leaving", "unlucky",
    ]  # fmt: skip
    wide = run("get", "runtimes", "--data", folder, "-o", "wide")
    assert "GENERATION" in wide.out


def test_one_that_is_not_up_is_explained_with_what_to_do(run, folder):
    done = run("runtime", "show", "unlucky", "--data", folder)
    assert done.code == 0, done.err
    assert "Pod greeter--bad/0 restart count=" in done.out
    lines = [line.split() for line in done.out.splitlines()]
    assert ["bad", "no", "0/1"] in [line[:3] for line in lines]
    assert ["hello", "yes", "1/1"] in [line[:3] for line in lines]
    assert ["Degraded", "True", "CrashLoop"] in [line[:3] for line in lines]
    assert "boom" in done.out
    assert "next: mend the command and `holdfast apply -f FILE` again" in done.out
    up = run("runtime", "show", "greeter", "--data", folder)
    assert "next:" not in up.out
    gone = run("runtime", "show", "nobody", "--data", folder)
    assert gone.code == 4
    assert f"`holdfast runtime list --data {folder}`" in gone.err


def test_what_is_shown_to_programs_is_the_resource_and_can_be_compared_again(
    run, folder, tmp_path
):
    shown = json.loads(run("runtime", "show", "greeter", "--data", folder, "-o", "json").out)
    assert (shown["apiVersion"], shown["kind"]) == ("oaas.io/v1alpha1", "ClassRuntime")
    status = shown["status"]
    assert {"phase", "observedGeneration", "conditions", "functions", "routers", "resource_refs",
            "nfr_recommendations", "last_applied_recommendations", "last_applied_at"} <= {
        *status}  # fmt: skip
    assert status["functions"][0]["function_key"] == "hello"
    assert [each["type"] for each in status["conditions"]][:3] == [
        "Progressing", "Available", "Degraded",
    ]  # fmt: skip
    file = tmp_path / "shown.yaml"
    file.write_text(run("runtime", "show", "greeter", "--data", folder, "-o", "yaml").out)
    assert run("diff", "-f", file, "--data", folder).code == 0
    document = yaml.safe_load(file.read_text())
    document["spec"]["functions"][0]["replicas"] = 7
    file.write_text(yaml.safe_dump(document))
    changed = run("diff", "-f", file, "--data", folder)
    assert changed.code == 1
    assert "-    replicas: 2\n+    replicas: 7\n" in changed.out
    document["metadata"]["name"] = "new"
    file.write_text(yaml.safe_dump(document))
    assert run("diff", "-f", file, "--data", folder, "-o", "name").out == "new\n"
    assert run("diff", "-f", file, "--data", folder, "--at", 1, "--at", 2).code == 2


def test_runtimes_are_listed_by_their_labels_and_show_them(run, write, tmp_path):
    world = World()
    for name, tier in (("front", "web"), ("back", "data")):
        world.did(
            r.PutResource(
                kind=KIND, name=name, spec=encode(declared()), labels=(("tier", tier),),
                annotations=(("note", "kept by ann"),),
            )
        )  # fmt: skip
    world.did(r.PutResource(kind=KIND, name="bare", spec=encode(declared())))
    folder = write(world)
    listed = run("runtime", "list", "-l", "tier=web", "--data", folder, "-o", "name")
    assert listed.out.split() == ["front"]
    assert run("runtime", "list", "-l", "tier=web,a=b", "--data", folder, "-o", "name").out == ""
    nobody = run("runtime", "list", "-l", "tier=gold", "--data", folder)
    assert (nobody.code, nobody.out) == (0, "")
    assert f"`holdfast runtime list -o wide --data {folder}` shows the labels" in nobody.err
    assert "tier=web" in run("runtime", "list", "--data", folder, "-o", "wide").out
    assert run("runtime", "list", "-l", "tier", "--data", folder).code == 2
    shown = run("runtime", "show", "front", "--data", folder).out
    assert "tier=web" in shown
    assert "note=kept by ann" in shown
    file = tmp_path / "front.yaml"
    document = yaml.safe_load(run("runtime", "show", "front", "--data", folder, "-o", "yaml").out)
    document["metadata"]["labels"]["tier"] = "gold"
    file.write_text(yaml.safe_dump(document))
    changed = run("diff", "-f", file, "--data", folder)
    assert changed.code == 1
    assert "-    tier: web\n+    tier: gold\n" in changed.out


def test_the_log_tells_the_life_of_a_runtime_and_any_moment_of_it(run, folder):
    done = run("runtime", "events", "greeter", "--data", folder, "-o", "json")
    events = json.loads(done.out)["events"]
    assert [each["reason"] for each in events] == ["Declared", "Available"]
    bad = run("runtime", "events", "unlucky", "--data", folder)
    assert "Warning  CrashLoop" in bad.out
    going = json.loads(run("runtime", "events", "leaving", "--data", folder, "-o", "json").out)
    assert going["events"][-1]["reason"] == "Deleting"
    early = run("runtime", "list", "--data", folder, "--at", 4)
    assert "pending" in early.out
    assert "unlucky" not in early.out


def test_what_needs_a_server_says_what_is_missing(run, tmp_path):
    assert run("apply").code == 2
    assert run("apply", "-f", tmp_path / "none.yaml").code == 4
    assert run("runtime", "wait", "x", "--for", "happiness").code == 2


def document(phase: str, reason: str = "", said: str = "", part: str = "") -> dict:
    degraded = {"type": "Degraded", "status": str(bool(reason)), "reason": reason, "message": said}
    return {
        "metadata": {"name": "greeter", "generation": 1},
        "status": {
            "phase": phase,
            "observedGeneration": 1,
            "conditions": [degraded],
            "functions": [{"function_key": "hello", "message": part}],
            "odgm": None,
        },
    }


@pytest.mark.parametrize(
    ("view", "said"),
    [
        (document("degraded", "CrashLoop", "Pod 3/0 restart count=4. boom"), "task logs 3/0 -X`"),
        (document("degraded", "CrashLoop", "Pod web-7f restart count=4."), "job logs JOB -X`"),
        (document("degraded", "Timeout", "too late"), "`holdfast worker list -X`"),
        (document("degraded", "EnforceFailed", "no"), "`holdfast runtime events greeter -X`"),
        (document("progressing", part="0 of 1: it waits for a worker"), "job explain JOB -X`"),
        (document("progressing"), "`holdfast runtime wait greeter -X`"),
        (document("deleting", part="it waits for a worker"), "--for=deleted -X`"),
    ],
)
def test_whatever_holds_it_up_the_next_command_is_named(view, said):
    assert said in next_step(view, " -X")
    assert "{" not in next_step(view, " -X")
    assert next_step(document("available"), " -X") == ""

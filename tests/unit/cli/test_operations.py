"""`holdfast operation`, on a folder and as it is typed wrongly."""

import json

import pytest

from holdfast.core import commands as c
from holdfast.core import commands_operations as o
from holdfast.core.ids import JobId
from holdfast.testing.world import World

REQUEST = b'{"verb":"cancel_jobs","selection":{"names":["all"]},"reason":"wrong input"}'


@pytest.fixture
def operated(write, spec):
    """Two jobs of three were cancelled by an operation that was cut off, another one is over."""
    world = World()
    for _ in range(3):
        world.submit("", items=(b"a", b"b"), spec=spec)
    words = {"request": REQUEST, "digest": b"", "asked_by": "token:ann", "reason": "wrong input"}
    first = world.do(o.BeginOperation(verb="cancel_jobs", total=3, **words))
    for job_id in ("1", "2"):
        world.do(c.KillJob(job_id=JobId(job_id)), request_id=str(first.answer))
    done = world.do(o.BeginOperation(verb="retry_jobs", total=0, **words))
    world.did(o.EndOperation(operation_id=str(done.answer), outcomes=(("unchanged", 1),)))
    return write(world)


def test_a_folder_tells_what_was_done_to_many_and_how_far_it_got(run, operated) -> None:
    told = run("operation", "list", "--data", operated)
    assert told.code == 0
    assert [line.split()[1:3] for line in told.out.splitlines()[1:]] == [
        ["retry_jobs", "DONE"], ["cancel_jobs", "INTERRUPTED"],
    ]  # fmt: skip
    cut = json.loads(run("operation", "list", "--data", operated, "-o", "json").out)
    name = cut["operations"][1]["id"]
    shown = json.loads(run("operation", "show", name, "--data", operated, "-o", "json").out)
    assert shown["outcomes"] == {"jobs": 2, "tasks": 4}
    assert shown["selection"] == {"names": ["all"]}
    assert f"holdfast operation resume {name}" in run(
        "operation", "show", name, "--data", operated
    ).out
    then = run("operation", "list", "--data", operated, "--at", "4")
    assert "nothing was done to many" in then.err


def test_one_that_is_not_there_is_told(run, operated) -> None:
    none = run("operation", "show", "op-999", "--data", operated)
    assert none.code == 4
    assert "holdfast operation list --data" in none.err


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("job", "cancel"), "Say which"),
        (("task", "retry"), "Say which"),
        (("job", "cancel", "all", "--field", "size=3"), "there is no 'size'"),
        (("task", "reschedule", "1/0"), "say when"),
        (("operation", "undo"), "Missing argument"),
    ],
)
def test_what_is_typed_wrongly_is_told_in_a_line(run, typed, told) -> None:
    done = run(*typed)
    assert done.code == 2
    assert told in done.err

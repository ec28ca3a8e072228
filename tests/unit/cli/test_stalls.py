"""`holdfast stall`, on a folder and as it is typed wrongly."""

import json

import pytest
from msgspec import structs

from holdfast.core import commands as c
from holdfast.core.ids import JobId
from holdfast.core.placing import WAIT, After
from holdfast.testing.world import World


@pytest.fixture
def hanging(write, spec):
    """Job 1 is past its own timeout, job 3 waits for job 2, which failed, and job 5 for job 4,
    which was cancelled."""
    world = World()
    world.submit("", items=(b"a",), spec=structs.replace(spec, timeout_ms=1_000))
    (lease,) = world.grant("1", 0)
    world.start("1", 0, lease)
    world.submit("", items=(b"b",), spec=structs.replace(spec, retries=0))
    world.did(c.SubmitJob(spec=spec, count=1, after=(After(JobId("2")),), fate=WAIT))
    (lease,) = world.grant("2", 0)
    world.start("2", 0, lease)
    world.fail("2", 0, lease)
    world.submit("", items=(b"c",), spec=spec)
    world.did(c.SubmitJob(spec=spec, count=1, after=(After(JobId("4")),), fate=WAIT))
    world.did(c.KillJob(job_id=JobId("4")))
    world.settle()
    return write(world)


def test_a_folder_tells_what_hangs_in_it_and_what_to_type(run, hanging) -> None:
    told = run("stall", "list", "--data", hanging)
    assert told.code == 0
    head, *rows = told.out.splitlines()
    assert head.split()[:3] == ["STALL", "KIND", "AGE"]
    assert sorted(row.split()[:2] for row in rows) == [
        ["1/0:1", "lease_age"], ["3", "dependency_deadlock"], ["5", "dependency_deadlock"],
    ]  # fmt: skip
    found = json.loads(run("stall", "list", "--data", hanging, "-o", "json").out)["stalls"]
    assert {each["command"] for each in found} == {
        "holdfast stall approve 1/0:1", "holdfast job retry 2", "holdfast job cancel 5",
    }  # fmt: skip


def test_a_list_is_narrowed_and_read_at_any_moment(run, hanging) -> None:
    one = run("stall", "list", "--data", hanging, "--kind", "lease_age", "-o", "name")
    assert one.out.split() == ["1/0:1"]
    then = run("stall", "list", "--data", hanging, "--at", "2")
    assert (then.code, then.out) == (0, "")
    assert "nothing hangs in" in then.err


def test_one_is_shown_and_one_that_is_not_there_is_told(run, hanging) -> None:
    shown = run("stall", "show", "3", "--data", hanging)
    assert "Next: holdfast job retry 2" in shown.out
    none = run("stall", "show", "9/9:9", "--data", hanging)
    assert none.code == 4
    assert "holdfast stall list --data" in none.err


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (("stall", "approve"), "Missing argument"),
        (("stall", "list", "--kind", "lazy"), "is not one of"),
        (("stall", "list", "--timeout", "soon"), "is not a duration"),
        (("serve", "--stall-recovery", "never"), "is not one of"),
        (("serve", "--stall-timeout", "soon"), "is not a duration"),
    ],
)
def test_what_is_typed_wrongly_is_told_in_a_line(run, typed, told) -> None:
    done = run(*typed)
    assert done.code == 2
    assert told in done.err

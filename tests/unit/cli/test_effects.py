"""`holdfast effect`, on a folder and as it is typed wrongly."""

import json

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId
from holdfast.core.owed import BLOCK, EFFECT, DebtName, Entry
from holdfast.testing.world import World

BODY = msgspec.msgpack.encode({"to": "ann", "note": "\x1b[31mred"})
OWED = (Entry(EFFECT, "ledger", "ann", BODY), Entry(BLOCK, "", "", b""))


@pytest.fixture
def owing(write):
    """A folder where task 1/0 owes an effect that failed once and a block that is parked."""
    world = World()
    world.submit("", items=(b"a",))
    (lease,) = world.grant("1", 0)
    world.start("1", 0, lease)
    world.commit("1", 0, lease, owed=OWED)
    name = DebtName(JobId("1"), Index(0), 0)
    world.did(c.FailDelivery(name=name, error="no answer", most_tries=9, delay_ms=5_000))
    world.did(c.ParkEffects(names=(DebtName(JobId("1"), Index(0), 1),), error="it died"))
    return write(world)


def test_a_folder_tells_what_it_owes_and_why(run, owing):
    told = run("effect", "list", "--data", owing)
    assert told.code == 0
    head, effect, block = told.out.splitlines()
    assert head.split() == [
        "ID", "KIND", "SINK/PLACE", "KEY", "STATE", "TRIES", "NEXT", "UTC", "WHY",
    ]  # fmt: skip
    assert effect.startswith("1/0.0  effect  ledger      ann")
    assert "no answer" in effect
    assert "PARKED" in block
    assert "it died" in block


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (("--state", "parked"), ["1/0.1"]),
        (("--state", "owed"), ["1/0.0", "1/0.1"]),
        (("--state", "ready,PARKED"), ["1/0.0", "1/0.1"]),
        (("--sink", "ledger"), ["1/0.0"]),
        (("--kind", "block"), ["1/0.1"]),
        (("--job", "last", "--limit", "1"), ["1/0.0"]),
        (("--at", "5", "--state", "parked"), []),
    ],
)
def test_a_list_is_narrowed(run, owing, options, ids):
    told = run("effect", "list", "--data", owing, "-o", "name", *options)
    assert told.out.split() == ids


def test_programs_get_every_field_under_a_name_that_stays(run, owing):
    told = json.loads(run("effect", "list", "--data", owing, "-o", "json").out)
    assert told["schema"] == 1
    assert set(told["effects"][0]) == {
        "id", "job_id", "task", "kind", "place", "key", "state", "tries", "next_at", "error",
        "code", "why", "command", "position",
    }  # fmt: skip


def test_one_is_shown_with_its_body_and_its_tries(run, owing):
    told = run("effect", "show", "1/0.0", "--data", owing)
    assert told.code == 0
    assert '"to": "ann"' in told.out
    assert "\x1b" not in told.out
    assert "delivery_failed" in told.out
    position = json.loads(run("effect", "show", "1/0.0", "--data", owing, "-o", "json").out)
    assert f":1/0:{position['position']}:0\n" in told.out
    block = run("effect", "show", "1/0.1", "--data", owing)
    assert "Next: holdfast effect discard 1/0.1 --reason 'looked at it'\n" in block.out


def test_a_task_and_a_job_tell_what_they_owe(run, owing):
    assert "owes      2 entries, 1 of them parked\n" in run("job", "show", "1", "--data", owing).out
    told = run("task", "show", "1/0", "--data", owing).out
    assert "It has committed and owes:\n" in told
    explained = run("task", "explain", "1/0", "--data", owing).out
    assert explained.index("Block (1/0.1) is parked") < explained.index("Effect for ledger")
    assert "effect_parked" in run("job", "list", "--data", owing).out


def test_what_is_not_there_says_where_to_look(run, owing):
    told = run("effect", "show", "1/0.7", "--data", owing)
    assert (told.code, told.out) == (4, "")
    assert "`holdfast effect list --data" in told.err
    told = run("effect", "list", "--data", owing, "--at", "1")
    assert (told.code, told.out) == (0, "")
    assert "nothing is owed in" in told.err
    told = run("effect", "list", "--sink", "x", "--data", owing)
    assert "has all" in told.err


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        (("show", "nonsense"), "write JOB/INDEX.N"),
        (("retry", "12/3"), "write JOB/INDEX.N"),
        (("retry",), "--all-parked"),
        (("retry", "1/0.0", "--sink", "ledger"), "or choose parked ones"),
        (("discard", "1/0.0"), "--reason"),
        (("discard", "1/0.0", "--reason", "  "), "--reason"),
        (("list", "--state", "lost"), "LOST is no state"),
        (("list", "--kind", "letter"), "letter"),
    ],
)
def test_what_is_typed_wrongly_is_told_before_anybody_is_asked(run, nobody_there, typed, why):
    told = run("effect", *typed)
    assert told.code == 2
    assert why in told.err

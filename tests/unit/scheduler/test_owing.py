"""How an entry stands: what holds it up, in words, and what to type about it."""

from holdfast.core import commands as c
from holdfast.core.debts import Owing
from holdfast.core.ids import NEVER, Index, Instant, JobId
from holdfast.core.owed import BLOCK, EFFECT, DebtName, Entry
from holdfast.scheduler.owing import (
    TOLD_MOST,
    Standing,
    owed_reasons,
    standing_of,
    without_carrier,
    without_sink,
)
from holdfast.testing.world import World

KEYED = Entry(EFFECT, "ledger", "ann", b"1")


def a_world(*owed: Entry, tasks: int = 1) -> World:
    world = World()
    world.submit("", items=(b"",) * tasks)
    for index in range(tasks):
        (lease,) = world.grant("1", index)
        world.start("1", index, lease)
        world.commit("1", index, lease, owed=owed)
    return world


def owing_of(world: World, index: int = 0, number: int = 0) -> Owing:
    found = world.state.debts.find(DebtName(JobId("1"), Index(index), number))
    assert found is not None
    return found


def standing(world: World, index: int = 0, number: int = 0, holder: str = "") -> Standing:
    return standing_of(world.state, owing_of(world, index, number), world.now, holder)


def fail(world: World, *, is_final: bool = False) -> None:
    name = DebtName(JobId("1"), Index(0), 0)
    world.did(
        c.FailDelivery(name=name, error="no", most_tries=9, delay_ms=5_000, is_final=is_final)
    )


def test_one_that_nothing_holds_up_is_ready_and_has_no_why() -> None:
    told = standing(a_world(KEYED))
    assert (told.state, told.code, told.why) == ("READY", "delivering", "")
    assert (told.effect, told.what) == ("1/0.0", "effect for ledger")


def test_one_in_somebodys_hands_names_who_has_it() -> None:
    world = a_world(KEYED)
    world.state.debts.take(owing_of(world))
    assert standing(world, holder="courier").why == "worker courier delivers it"
    assert standing(world).state == "DELIVERING"


def test_one_that_failed_waits_for_its_next_try_and_is_ready_then() -> None:
    world = a_world(KEYED)
    fail(world)
    told = standing(world)
    assert (told.state, told.code) == ("WAITING", "effect_backing_off")
    assert told.why == "1 try failed, the last with: no"
    assert told.until == world.now + 5_000
    assert told.command == "holdfast effect retry 1/0.0"
    world.sleep(5_000)
    assert standing(world).state == "READY"


def test_those_with_the_same_key_name_the_one_before_them() -> None:
    told = standing(a_world(KEYED, tasks=2), index=1)
    assert (told.state, told.code) == ("WAITING", "effect_behind")
    assert told.command == "holdfast effect show 1/0.0"


def test_a_parked_effect_may_be_retried_and_a_parked_block_only_discarded() -> None:
    world = a_world(KEYED, Entry(BLOCK, "", "", b""))
    inside = standing(world, number=1)
    assert (inside.state, inside.code) == ("DELIVERING", "in_block")
    fail(world, is_final=True)
    world.did(c.ParkEffects(names=(owing_of(world, number=1).name,), error="it died"))
    effect, block = standing(world), standing(world, number=1)
    assert effect.state == block.state == "PARKED"
    assert effect.command == "holdfast effect retry 1/0.0"
    assert block.command.startswith("holdfast effect discard 1/0.1 --reason ")
    assert block.why.endswith("it died")


def test_one_that_nobody_could_deliver_says_so_instead_of_counting_tries() -> None:
    world = a_world(KEYED)
    world.did(c.ParkEffects(names=(owing_of(world).name,), error="host a is gone"))
    assert standing(world).why == "nobody can deliver it: host a is gone"


def test_a_sink_and_a_carrier_that_are_missing_are_named_with_what_to_do() -> None:
    owing = owing_of(a_world(KEYED))
    assert without_sink(owing).command == "holdfast effect list --sink ledger"
    assert without_carrier(owing, is_ours=False).command == "holdfast worker start"
    assert without_carrier(owing, is_ours=True).command == "holdfast doctor"


def test_what_somebody_must_look_at_is_told_first_and_when_the_next_try_comes() -> None:
    world = a_world(KEYED, Entry(EFFECT, "mail", "", b""), Entry(EFFECT, "post", "", b""))
    fail(world)
    name = owing_of(world, number=2).name
    world.did(c.ParkEffects(names=(name,), error="gone"))
    owed = [standing(world, number=number) for number in range(3)]
    first, second, third = owed_reasons("1", owed, world.now, Instant(90_000))
    assert [each.code for each in (first, second, third)] == [
        "effect_parked", "effect_backing_off", "delivering",
    ]  # fmt: skip
    assert "it is tried again in 5.0s" in second.sentence
    assert second.until == 95_000
    assert first.until == third.until == NEVER


def test_of_very_many_the_rest_is_counted() -> None:
    entries = tuple(Entry(EFFECT, "mail", "", b"") for _ in range(TOLD_MOST + 3))
    world = a_world(*entries)
    owed = [standing(world, number=number) for number in range(len(entries))]
    *_, last = owed_reasons("1", owed, world.now, Instant(0))
    assert last.sentence == "It owes 3 more."
    assert last.command == "holdfast effect list --job 1"

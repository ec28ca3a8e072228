"""Throws of commands about what commits owe, and of the entries they come with."""

from random import Random

import msgspec

from holdfast.core import commands as c
from holdfast.core.owed import BLOCK, EFFECT, FILE, DebtName, Entry, Stored
from holdfast.core.reports import Done
from holdfast.core.spec import CircuitPolicy
from holdfast.testing.throws import ABSURD, a_job_id, an_index
from holdfast.testing.world import World

ENTRIES = (
    Entry(EFFECT, "mail", "", b"dear"),
    Entry(EFFECT, "mail", "ann", b"dear ann"),
    Entry(EFFECT, "ledger", "ann", b"1"),
    Entry(EFFECT, "ledger", "bob", b"2"),
    Entry(FILE, "host:one", "/out/report", b"staged"),
)


def any_owed(dice: Random) -> tuple[Entry, ...]:
    """Nothing, mostly; else a few entries, at times with a block behind them."""
    if dice.random() < 0.5:
        return ()
    entries = tuple(dice.choice(ENTRIES) for _ in range(dice.randrange(1, 4)))
    return (*entries, Entry(BLOCK, "", "", b"")) if dice.random() < 0.25 else entries


def any_done(dice: Random, report: Done) -> Done:
    """The report, at times of a result that lies in the store."""
    if dice.random() < 0.1:
        stored = Stored(dice.choice((b"one", b"two")), 70_000)
        return msgspec.structs.replace(report, result=b"", stored=stored)
    return report


def some_names(world: World, dice: Random) -> tuple[DebtName, ...]:
    """Entries that are owed, mostly; at times settled, foreign or absurd ones."""
    owed = [owing.name for owing in world.state.debts]
    chosen = dice.sample(owed, min(len(owed), dice.randrange(1, 4)))
    if chosen and dice.random() < 0.1:
        chosen.append(chosen[0])
    if dice.random() < 0.1 or not chosen:
        job_id = a_job_id(world, dice)
        number = dice.choice((0, 1, 7, *ABSURD))
        chosen.append(DebtName(job_id, an_index(world, dice, job_id), number))
    return tuple(chosen)


def confirm_deliveries(world: World, dice: Random) -> c.Command:
    return c.ConfirmDeliveries(names=some_names(world, dice))


def fail_delivery(world: World, dice: Random) -> c.Command:
    return c.FailDelivery(
        name=some_names(world, dice)[0],
        error="no answer",
        most_tries=dice.choice((0, 1, 3, 20)),
        delay_ms=dice.choice((0, 1_000, 60_000, -1, 10**30)),
        is_final=dice.random() < 0.2,
        circuit=dice.choice((CircuitPolicy(), CircuitPolicy(2, 3_000), CircuitPolicy(1, 90))),
    )


def park_effects(world: World, dice: Random) -> c.Command:
    return c.ParkEffects(names=some_names(world, dice), error="host one is gone")


def retry_effects(world: World, dice: Random) -> c.Command:
    return c.RetryEffects(names=some_names(world, dice))


def discard_effects(world: World, dice: Random) -> c.Command:
    return c.DiscardEffects(names=some_names(world, dice), reason="not needed")

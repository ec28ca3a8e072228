"""Random clusters: machines of every kind, with jobs that wish for everything that can be wished.

A test hands in its dice; the same dice give the same cluster.
"""

from random import Random
from typing import Any

from holdfast.core import commands as c
from holdfast.core.ids import WorkerId
from holdfast.core.placing import PACK, SPREAD, Constraint
from holdfast.core.shape import shape_of
from holdfast.scheduler.ledger import KEY, NAMESPACE, USER
from holdfast.scheduler.seats import Amounts
from holdfast.testing.floor import Floor, Machine

ZONES = ("east", "west", "north")


def a_cluster(dice: Random) -> Floor:
    floor = Floor(**{f"w{number}": any_machine(dice) for number in range(dice.randint(1, 5))})
    floor.length = dice.choice((1, 1, 2, 5))
    if dice.random() < 0.3:
        floor.caps[(NAMESPACE, "a")] = dice.randint(1, 4)
    if dice.random() < 0.2:
        floor.caps[(USER, "ann")] = dice.randint(1, 3)
    if dice.random() < 0.3:
        floor.amounts[(NAMESPACE, "b")] = any_amounts(dice)
    if dice.random() < 0.2:
        floor.amounts[(KEY, "db")] = any_amounts(dice)
    if dice.random() < 0.2:
        floor.tokens[(KEY, "db")] = dice.randint(0, 3)
    floor.weights = {"a": dice.randint(1, 4)}
    floor.aging.step_ms = dice.choice((0, 1_000))
    return floor


def any_amounts(dice: Random) -> dict[str, int]:
    """How much of one resource or several may be taken together."""
    every = {
        "cpus": dice.choice((900, 1_000, 2_500)), "memory": dice.randint(1, 6),
        "gpus": dice.randint(1, 3), "disk": dice.randint(1, 4),
    }  # fmt: skip
    return {name: every[name] for name in dice.sample(sorted(every), dice.randint(1, 3))}


def any_machine(dice: Random) -> Machine:
    total = Amounts(
        dice.choice((500, 1_000, 2_000, 4_000)),
        dice.choice((0, 4, 8)),
        dice.choice((0, 0, 2)),
        {"disk": 3} if dice.random() < 0.3 else {},
    )
    attributes = {"size": str(dice.randint(1, 3))}
    if dice.random() < 0.8:
        attributes["zone"] = dice.choice(ZONES)
    return Machine(dice.randint(1, 6), total, attributes, dice.random() < 0.9)


def any_wants(dice: Random, *, namespaces: str = "ab", gangs: bool = True) -> dict[str, Any]:
    def sometimes(part: float, wants: dict[str, Any]) -> dict[str, Any]:
        return wants if dice.random() < part else {}

    zone = Constraint("zone", dice.choice(("eq", "ne")), (dice.choice(ZONES),), dice.choice((0, 5)))
    size = Constraint("size", "ge", (str(dice.randint(1, 3)),), dice.choice((0, 9)))
    is_gang = gangs and dice.random() < 0.25
    return {
        "cpus_milli": dice.choice((100, 250, 500, 1_000, 1_000, 2_000)),
        "priority": dice.choice((0, 0, 1, 3)),
        "namespace": dice.choice(namespaces),
        "retries": 5,
        **sometimes(0.3, {"memory_bytes": dice.randint(1, 4)}),
        **sometimes(0.2, {"gpus": dice.randint(1, 2)}),
        **sometimes(0.1, {"resources": (("disk", dice.randint(1, 3)),)}),
        **sometimes(0.3, {"constraints": (zone,)}),
        **sometimes(0.2, {"constraints": (size,)}),
        **sometimes(0.0 if is_gang else 0.2, {"max_parallel": dice.randint(1, 3)}),
        **sometimes(0.2, {"keys": (dice.choice((("db", 0), ("one", 1), ("two", 2))),)}),
        **sometimes(0.3, {"user": dice.choice(("ann", "bob"))}),
        **sometimes(0.4, {"spread": dice.choice((PACK, SPREAD))}),
        **sometimes(0.2, {"preempts": True}),
        **({"gang": True, **sometimes(0.5, {"gang_by": "zone"})} if is_gang else {}),
    }


def submit_some(floor: Floor, dice: Random, **limits: Any) -> None:
    for _ in range(dice.randint(1, 5)):
        wants = any_wants(dice, **limits)
        most = 4 if wants.get("gang") else 8
        floor.submit(f"j{len(floor.world.state.jobs)}", dice.randint(1, most), **wants)


def stir(floor: Floor, dice: Random) -> None:
    """Some of what is held begins, ends, fails, or dies with its machine."""
    for worker in floor.machines:
        for task in floor.tasks_on(worker):
            if not task.lease_id or shape_of(floor.world.state.jobs[task.job_id]).gang:
                continue
            fate = dice.random()
            if fate < 0.7:
                floor.start([task])
            if fate < 0.3:
                floor.commit([task])
            elif fate < 0.4:
                floor.world.fail(task.job_id, task.index, task.lease_id, worker=worker)
        if dice.random() < 0.1:
            floor.world.did(c.LoseWorker(worker=WorkerId(worker), incarnation=1, error="gone"))
    if dice.random() < 0.5:
        floor.let_go()
    floor.world.sleep(dice.choice((1, 700, 5_000)))


def a_busy_cluster(dice: Random, **limits: Any) -> Floor:
    floor = a_cluster(dice)
    for _ in range(dice.randint(0, 3)):
        submit_some(floor, dice, **limits)
        floor.round()
        stir(floor, dice)
    submit_some(floor, dice, **limits)
    return floor

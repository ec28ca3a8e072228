"""Throws of commands about the log itself."""

from random import Random

from holdfast.core import commands as c
from holdfast.core.ids import LeaseId, Position
from holdfast.core.lineage import FORK, LEASE_LEAP, SALVAGE, Hole
from holdfast.testing.world import World

HOLE = Hole("wal/1.seg", 4096, 7, 9, "the frame's checksum does not match")


def fork_log(world: World, dice: Random) -> c.Command:
    """Mostly one that is refused: a log that is suspended all the time shows little."""
    state = world.state
    kind = dice.choice((FORK, SALVAGE, "nonsense"))
    epoch = state.epoch + dice.choice((1, 3, 0, 0, -1))
    return c.ForkLog(
        log_id=dice.choice((f"log-{epoch}", state.log_id, "")), head=b"head",
        head_position=Position(max(0, state.position - dice.randrange(3))), kind=kind, epoch=epoch,
        next_lease=LeaseId(dice.choice((1, state.next_lease + LEASE_LEAP))),
        next_job=dice.choice((1, state.next_job + 5)), reason="it broke",
        hole=HOLE if kind == SALVAGE else Hole(),
    )  # fmt: skip


def resume_log(world: World, dice: Random) -> c.Command:
    return c.ResumeLog()


def record_repair(world: World, dice: Random) -> c.Command:
    count = dice.randrange(3)
    return c.RecordRepair(findings=("it was broken",) * count, deeds=("it is whole",) * count)

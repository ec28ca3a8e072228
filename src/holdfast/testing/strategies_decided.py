"""What an operator or a repair decides, thrown at a world."""

from random import Random

from holdfast.core import commands as c
from holdfast.testing.throws import a_job_id, some_indices
from holdfast.testing.world import World


def set_aside(world: World, dice: Random) -> c.Command:
    job_id = a_job_id(world, dice)
    cause = dice.choice((*c.ASIDE_CAUSES, "operator", "", "boredom"))
    indices = some_indices(world, dice, job_id) if dice.random() < 0.9 else ()
    return c.SetAside(job_id=job_id, indices=indices, cause=cause, note="wait")

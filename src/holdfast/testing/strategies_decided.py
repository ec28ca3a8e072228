"""What an operator or a repair decides, thrown at a world."""

from random import Random

from holdfast.core import commands as c
from holdfast.core.task import TaskState
from holdfast.testing.throws import a_job_id, an_index, some_indices
from holdfast.testing.world import World


def set_aside(world: World, dice: Random) -> c.Command:
    job_id = a_job_id(world, dice)
    cause = dice.choice((*c.ASIDE_CAUSES, "operator", "", "boredom"))
    indices = some_indices(world, dice, job_id) if dice.random() < 0.9 else ()
    return c.SetAside(job_id=job_id, indices=indices, cause=cause, note="wait")


def purge_tasks(world: World, dice: Random) -> c.Command:
    job_id = a_job_id(world, dice)
    indices = some_indices(world, dice, job_id) if dice.random() < 0.9 else ()
    return c.PurgeTasks(job_id=job_id, indices=indices, reason=dice.choice(("old", "old", " ")))


def force_task(world: World, dice: Random) -> c.Command:
    job_id = a_job_id(world, dice)
    target = dice.choice((*TaskState.__members__, "WAITING", "QUARANTINED", "KILLED", "nowhere"))
    reason = dice.choice(("by hand", "by hand", ""))
    index = an_index(world, dice, job_id)
    return c.ForceTask(job_id=job_id, index=index, target=target, reason=reason)

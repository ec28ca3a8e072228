"""What an operator or a repair decides, thrown at a world."""

from random import Random

from holdfast.core import commands as c
from holdfast.core.ids import Position
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


def retry_quarantined(world: World, dice: Random) -> c.Command:
    return c.RetryQuarantined(picked=_picked(world, dice))


def purge_quarantined(world: World, dice: Random) -> c.Command:
    reason = dice.choice(("old", "old", ""))
    return c.PurgeQuarantined(picked=_picked(world, dice), reason=reason)


def _picked(world: World, dice: Random) -> tuple[c.Picked, ...]:
    """Some tasks of any jobs, as they are or as they never were."""
    found: list[c.Picked] = []
    for _ in range(dice.randrange(4)):
        job_id = a_job_id(world, dice)
        index = an_index(world, dice, job_id)
        job = world.state.jobs.get(job_id)
        ends = job.ends if job is not None and job.ends is not None else ()
        end = ends[index] if 0 <= index < len(ends) and dice.random() < 0.9 else 1
        found.append(c.Picked(job_id, index, Position(end)))
    return tuple(found)

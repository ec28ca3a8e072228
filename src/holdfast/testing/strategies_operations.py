"""Operations and the steps that only they take, thrown at a world."""

from random import Random

from holdfast.core import commands as c
from holdfast.core import commands_operations as o
from holdfast.core.ids import Index, Instant, Position
from holdfast.core.operation import UNDO, VERBS
from holdfast.core.task import TaskState
from holdfast.testing.throws import ABSURD, a_job_id, some_indices
from holdfast.testing.world import World


def begin(world: World, dice: Random) -> c.Command:
    verb = dice.choice((*VERBS, "dance"))
    names = [*world.state.operations, "op-0"]
    undoes = dice.choice(names) if verb == UNDO or dice.random() < 0.1 else ""
    key = dice.choice(("", "", "k1", "k2"))
    return o.BeginOperation(
        verb=verb, request=b"{}", digest=key.encode(), key=key, asked_by="ann", undoes=undoes
    )


def end(world: World, dice: Random) -> c.Command:
    name = dice.choice([*world.state.operations, "op-0"])
    return o.EndOperation(operation_id=name, outcomes=(("tasks", 1),))


def restore(world: World, dice: Random) -> c.Command:
    job_id = a_job_id(world, dice)
    job = world.state.jobs.get(job_id)
    cells = b"" if job is None else job.states
    killed = [Index(at) for at, cell in enumerate(cells) if cell == TaskState.KILLED]
    indices = some_indices(world, dice, job_id)
    if killed and dice.random() < 0.8:
        indices = tuple(dice.sample(killed, dice.randint(1, len(killed))))
    at = Position(dice.choice((0, world.state.position)))
    if job is not None and job.ends and indices and 0 <= indices[0] < len(job.ends):
        at = Position(job.ends[indices[0]])
    is_array = job is not None and job.payloads is None and dice.random() < 0.5
    items = () if is_array else (b"again",) * len(indices)
    if dice.random() < 0.05:
        items = (b"odd",)
    return o.RestoreTasks(
        job_id=job_id, killed_at=at, indices=indices, items=items, shared=b"shared"
    )


def reschedule(world: World, dice: Random) -> c.Command:
    job_id = a_job_id(world, dice)
    wall = Instant(world.wall + dice.choice((1, 5_000))) if dice.random() < 0.3 else Instant(0)
    return o.RescheduleTasks(
        job_id=job_id,
        indices=some_indices(world, dice, job_id),
        delay_ms=dice.choice((0, 100, 3_000, *ABSURD[:1])),
        not_before_wall=wall,
    )

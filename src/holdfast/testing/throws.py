"""What dice pick from a world: a job, a task, a worker, and at times something absurd."""

from random import Random
from typing import Final

from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.job import Job
from holdfast.core.task import Task
from holdfast.testing.world import World

LOCAL = (WorkerId("local"), 0)
REMOTE = (WorkerId("remote"), 15_000)
OTHER = (WorkerId("other"), 5_000)
WORKERS: Final = (LOCAL, REMOTE, OTHER)
"""Workers with the term of their leases: one in the program, two that live by renewal."""

ABSURD: Final = (-1, -(10**6), 10**6, 2**31, 2**63, 10**30)
"""Numbers that no honest caller sends."""


def a_job(world: World, dice: Random) -> Job | None:
    jobs = list(world.state.jobs.values())
    return dice.choice(jobs) if jobs else None


def a_job_id(world: World, dice: Random) -> JobId:
    job = a_job(world, dice)
    if job is None or dice.random() < 0.05:
        return JobId(dice.choice(("nobody", "", "0", "9" * 5_000)))
    return job.job_id


def an_index(world: World, dice: Random, job_id: JobId) -> Index:
    job = world.state.jobs.get(job_id)
    if job is None or not job.count or dice.random() < 0.05:
        return Index(dice.choice(ABSURD))
    return Index(dice.randrange(job.count))


def some_indices(world: World, dice: Random, job_id: JobId) -> tuple[Index, ...]:
    return tuple(an_index(world, dice, job_id) for _ in range(dice.randrange(1, 4)))


def some_held(world: World, dice: Random, worker: WorkerId, incarnation: int) -> list[Task]:
    """Some of what this worker holds, in any order."""
    holder = world.state.holders.get((worker, incarnation))
    tasks = list(holder.leases.values()) if holder is not None else []
    return dice.sample(tasks, min(len(tasks), dice.randrange(1, 4)))


def a_worker(world: World, dice: Random) -> tuple[WorkerId, int, int]:
    """A worker, its incarnation and the term of its leases; rather one that holds something."""
    busy = [key for key, holder in world.state.holders.items() if holder.leases]
    if busy and dice.random() < 0.85:
        worker, incarnation = dice.choice(busy)
        return worker, incarnation, dict(WORKERS).get(worker, 0)
    worker, term_ms = dice.choice(WORKERS)
    return worker, dice.choice((1, 1, 2)), term_ms


def some_targets(
    world: World, dice: Random
) -> tuple[WorkerId, int, list[tuple[JobId, Index, LeaseId]]]:
    """Who reports about what: mostly its own leases; at times stale, foreign, or none at all."""
    worker, incarnation, _ = a_worker(world, dice)
    held = some_held(world, dice, worker, incarnation)
    named = [(task.job_id, task.index, task.lease_id) for task in held]
    if dice.random() < 0.15:
        job_id = a_job_id(world, dice)
        lease_id = LeaseId(dice.randrange(world.state.next_lease + 1))
        named.append((job_id, an_index(world, dice, job_id), lease_id))
    if named and dice.random() < 0.1:
        named.append(dice.choice(named))
    if dice.random() < 0.05:
        worker, incarnation = dice.choice(((WorkerId(""), 0), (worker, incarnation + 1)))
    return worker, incarnation, named

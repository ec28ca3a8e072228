"""Services, and commands about them, thrown at a `World`."""

from random import Random

from holdfast.core import commands as c
from holdfast.core.command import Command
from holdfast.core.ids import JobId
from holdfast.core.spec import JobSpec, ServicePolicy
from holdfast.testing.throws import a_job_id, some_indices
from holdfast.testing.world import World


def any_policy(dice: Random) -> ServicePolicy:
    """Small budgets and short times, so that they are spent, and come back."""
    return ServicePolicy(
        restarts=dice.choice((1, 1, 2, 3)),
        refill_ms=dice.choice((1_000, 20_000, 600_000)),
        delay_ms=dice.choice((0, 100, 1_000)),
        max_delay_ms=dice.choice((0, 2_000)),
        steady_ms=dice.choice((0, 4_000, 60_000)),
        endpoint=dice.choice(("", "web")),
    )


def submit_service(world: World, dice: Random) -> Command:
    """One that is mostly as it has to be."""
    is_odd = dice.random() < 0.1
    spec = JobSpec(
        name="serve",
        kind="service",
        target="",
        retries=1 if is_odd else 0,
        priority=dice.choice((0, 1)),
        service=any_policy(dice),
    )
    return c.SubmitJob(
        job_id=JobId(f"s{len(world.log)}"),
        spec=spec,
        items=tuple(b"plan" for _ in range(dice.randrange(4))),
        sealed=dice.random() < 0.05,
    )


def stop_replicas(world: World, dice: Random) -> Command:
    job_id = _a_service(world, dice)
    return c.StopReplicas(
        job_id=job_id,
        indices=some_indices(world, dice, job_id),
        reason=dice.choice(("", "scaled down")),
    )


def end_service(world: World, dice: Random) -> Command:
    return c.EndService(job_id=_a_service(world, dice), reason=dice.choice(("", "not needed")))


def _a_service(world: World, dice: Random) -> JobId:
    jobs = world.state.jobs.values()
    services = [job.job_id for job in jobs if job.service is not None]
    if services and dice.random() < 0.9:
        return dice.choice(services)
    return a_job_id(world, dice)

"""Commands about tokens, cordons, queues and endpoints, thrown at a `World`."""

from random import Random

from holdfast.core import commands as c
from holdfast.core.ids import Index, Instant, JobId, LeaseId, WorkerId
from holdfast.core.task import Task
from holdfast.testing.throws import some_targets
from holdfast.testing.world import World


def issue_token(world: World, dice: Random) -> c.Command:
    number = dice.randrange(6)
    scopes = dice.choice((("read",), ("submit", "read"), ("admin",), (), ("nonsense",)))
    return c.IssueToken(
        token_id=f"t{number}" if dice.random() < 0.95 else "",
        name="someone",
        digest=bytes([number]),
        scopes=scopes,
        expires_wall=Instant(world.wall + 5_000) if dice.random() < 0.5 else Instant(0),
    )


def revoke_token(world: World, dice: Random) -> c.Command:
    return c.RevokeToken(token_id=dice.choice((*world.state.tokens, "nobody")))


def cordon_worker(world: World, dice: Random) -> c.Command:
    worker = WorkerId(dice.choice(("remote", "other", "", "x" * 500)))
    return c.CordonWorker(worker=worker, reason=dice.choice(("", "its disk is slow")))


def uncordon_worker(world: World, dice: Random) -> c.Command:
    return c.UncordonWorker(worker=WorkerId(dice.choice(("remote", "other"))))


def pause_queue(world: World, dice: Random) -> c.Command:
    return c.PauseQueue(queue=dice.choice(("default", "slow", "")), reason="inventory")


def resume_queue(world: World, dice: Random) -> c.Command:
    return c.ResumeQueue(queue=dice.choice(("default", "slow")))


def register_endpoint(world: World, dice: Random) -> c.Command:
    worker, incarnation, named = some_targets(world, dice)
    job_id, index, lease_id = named[0] if named else (JobId("nobody"), Index(0), LeaseId(0))
    return c.RegisterEndpoint(
        worker=worker, incarnation=incarnation, job_id=job_id, index=index, lease_id=lease_id,
        name=dice.choice(("web", "api", "")), address=dice.choice(("host:1", "host:2", "")),
        metadata=dice.choice(((), (("zone", "eu"),))),
    )  # fmt: skip


def remove_endpoint(world: World, dice: Random) -> c.Command:
    tasks = [task for leases in world.state.endpoints.values() for task in leases.values()]
    task = dice.choice(tasks) if tasks else Task(JobId("nobody"), Index(0))
    return c.RemoveEndpoint(
        worker=task.worker, incarnation=task.incarnation, job_id=task.job_id, index=task.index,
        lease_id=dice.choice((task.lease_id, task.lease_id, LeaseId(0))),
        name=dice.choice(("web", "api")),
    )  # fmt: skip

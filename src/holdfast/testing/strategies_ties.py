"""Commands about ties between jobs, gangs, preemption and limits, thrown at a `World`."""

from random import Random
from typing import Any, Final

import msgspec

from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.placing import (
    ALL_TASKS,
    ANYWHERE,
    CONDITIONS,
    FATES,
    After,
    Constraint,
    Placing,
)
from holdfast.core.reports import Done
from holdfast.core.spec import JobSpec
from holdfast.testing.throws import ABSURD, WORKERS, a_job, a_job_id, an_index
from holdfast.testing.world import MAIL, World

_ODD_PLACINGS: Final = (
    Placing(spread="sideways"),
    Placing(gang_by="zone"),
    Placing(resources=(("disk", -1),)),
    Placing(keys=(("db", 1), ("db", 2))),
    Placing(constraints=(Constraint("zone", "near"),)),
)
_PLACINGS: Final = (
    Placing(resources=(("disk", 1_000),), constraints=(Constraint("zone", "eq", ("eu",)),)),
    Placing(preempts=True),
    Placing(keys=(("db", 1),), spread="spread"),
)


def any_placing(dice: Random, *, whole: bool) -> Placing:
    """Mostly anywhere; at times a gang, where the job is one that may be."""
    throw = dice.random()
    if throw < 0.2 and whole:
        return Placing(gang=True, preempts=dice.random() < 0.3)
    if throw < 0.4:
        return dice.choice(_PLACINGS)
    return dice.choice(_ODD_PLACINGS) if throw > 0.98 else ANYWHERE


def any_ties(world: World, dice: Random, key: str) -> dict[str, Any]:
    """What a submit says of other jobs, as the fields of the command."""
    ties: dict[str, Any] = {}
    if dice.random() < 0.25:
        ties["after"] = tuple(_an_after(world, dice) for _ in range(dice.randrange(1, 3)))
        ties["fate"] = dice.choice((*FATES * 8, "nonsense"))
    if dice.random() < 0.15:
        alive = [job.job_id for job in world.state.jobs.values() if job.unfinished]
        ties["parent"] = dice.choice(alive) if alive else a_job_id(world, dice)
        ties["detached"] = dice.random() < 0.3
    if key or dice.random() < 0.02:
        ties["existing"] = dice.choice((*c.EXISTING, *c.EXISTING, c.KEEP, c.KEEP, "nonsense"))
        ties["unique_for_ms"] = dice.choice((0, 0, 0, 5_000, 5_000, -1))
    return ties


def _an_after(world: World, dice: Random) -> After:
    job_id = a_job_id(world, dice)
    index: int = ALL_TASKS
    if dice.random() < 0.3:
        index = an_index(world, dice, job_id)
    condition = dice.choice((*CONDITIONS * 8, "nonsense"))
    return After(job_id, index, condition)


def settle_ties(world: World, dice: Random) -> c.Command:
    """Those that are to be judged, mostly; also ones of which nothing follows."""
    jobs = tuple(world.state.unsettled)
    if not jobs or dice.random() < 0.2:
        return c.SettleTies(jobs=(*jobs[:1], a_job_id(world, dice), a_job_id(world, dice)))
    return c.SettleTies(jobs=jobs)


def grant_gang(world: World, dice: Random) -> c.Command:
    gangs = [job for job in world.state.jobs.values() if job.spec.placing.gang and not job.active]
    waiting = [job for job in gangs if job.unfinished]
    job = dice.choice(waiting or gangs) if gangs else a_job(world, dice)
    if job is None:
        return c.GrantGang(job_id=JobId("nobody"), members=())
    members = []
    for index in range(job.count):
        worker, term_ms = dice.choice(WORKERS)
        slot = 10 + index if dice.random() < 0.97 else 0
        members.append(c.Member(Index(index), worker, dice.choice((1, 1, 2)), slot, term_ms))
    if members and dice.random() < 0.1:
        members[dice.randrange(len(members))] = dice.choice(members)
    rank = dice.choice((None, 0, job.spec.priority + 2))
    return c.GrantGang(job_id=job.job_id, members=tuple(members), rank=rank)


def commit_gang(world: World, dice: Random) -> c.Command:
    jobs = world.state.jobs.values()
    job_id = next((j.job_id for j in jobs if j.spec.placing.gang and j.active), None)
    if job_id is None or dice.random() < 0.05:
        job_id = a_job_id(world, dice)
    job = world.state.jobs.get(job_id)
    held = [t for t in ((job.tasks or {}) if job else {}).values() if t.lease_id]
    owed = dice.choice(((), (), (MAIL,)))
    members = [
        c.Finished(t.worker, t.incarnation, Done(t.job_id, t.index, t.lease_id, 5, b"r", owed))
        for t in held
    ]
    if members and dice.random() < 0.2:
        members.pop(dice.randrange(len(members)))
    if members and dice.random() < 0.1:
        stale = members[0]
        done = msgspec.structs.replace(stale.done, lease_id=LeaseId(stale.done.lease_id - 1))
        members[0] = msgspec.structs.replace(stale, done=done)
    return c.CommitGang(job_id=job_id, members=tuple(members))


def preempt_attempts(world: World, dice: Random) -> c.Command:
    held = [lease for holder in world.state.holders.values() for lease in holder.leases]
    leases = dice.sample(held, min(len(held), dice.randrange(1, 4)))
    if dice.random() < 0.2:
        leases.append(LeaseId(dice.randrange(world.state.next_lease + 2)))
    urgent = [j.job_id for j in world.state.jobs.values() if j.spec.placing.preempts]
    by = dice.choice((JobId(""), a_job_id(world, dice), *urgent))
    return c.PreemptAttempts(leases=tuple(leases), reason="more urgent work", by=by)


def edited_spec(world: World, dice: Random, job_id: JobId) -> JobSpec | None:
    """Other terms for a job that is sent back; at times of another job altogether."""
    job = world.state.jobs.get(job_id)
    if job is None or dice.random() < 0.6:
        return None
    changes: dict[str, Any] = dice.choice(
        (
            {"retries": dice.choice((0, 3, -1))},
            {"priority": dice.choice((0, 5)), "queue": "slow"},
            {"cpus_milli": 500, "labels": (("edited", "yes"),)},
            {"target": "another"},
        )
    )
    return msgspec.structs.replace(job.spec, **changes)


def set_limit(world: World, dice: Random) -> c.Command:
    return c.SetLimit(
        scope=dice.choice(("namespace", "user", "key", "galaxy")),
        name=dice.choice(("default", "ann", "db", "")),
        running=dice.choice((0, 1, 5, ABSURD[0])),
        starts=dice.choice((0, 0, 10)),
        per_ms=dice.choice((0, 0, 1_000)),
        weight=dice.choice((1, 1, 1, 3, 0, 101)),
        amounts=dice.choice(((), (("cpus", 2_000),), (("licence", 0), ("gpus", 1)))),
        replaces=dice.random() < 0.5,
    )


def clear_limit(world: World, dice: Random) -> c.Command:
    known = (*world.state.limits, ("namespace", "nobody"))
    scope, name = dice.choice(known)
    return c.ClearLimit(scope=scope, name=name)

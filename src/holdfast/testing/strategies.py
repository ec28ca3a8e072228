"""Commands of every kind, thrown at a `World` by dice that a test owns.

Most throws make sense where the world stands, so that histories get somewhere; some are stale,
foreign or absurd, since the core must answer those too. The dice are any `random.Random`: seeded
for a simulation, or drawn by a property test that wants to shrink what it found.
"""

from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from holdfast.core import commands as c
from holdfast.core import commands_operations as o
from holdfast.core import commands_resources as r
from holdfast.core import commands_schedules as s
from holdfast.core.ids import Index, Instant, JobId, LeaseId, Position
from holdfast.core.reports import Done, Failed, Released, Started
from holdfast.core.spec import NO_LIMIT, JobSpec, RetryPolicy
from holdfast.testing import strategies_circuits as circuits
from holdfast.testing import strategies_decided as decided
from holdfast.testing import strategies_fleet as fleet
from holdfast.testing import strategies_lineage as lineage
from holdfast.testing import strategies_operations as operations
from holdfast.testing import strategies_owed as owed
from holdfast.testing import strategies_resources as resources
from holdfast.testing import strategies_schedules as schedules
from holdfast.testing import strategies_services as services
from holdfast.testing import strategies_ties as ties
from holdfast.testing.throws import (
    ABSURD,
    WORKERS,
    a_job_id,
    a_worker,
    an_index,
    some_held,
    some_indices,
    some_targets,
)
from holdfast.testing.world import World

KEYS: Final = ("", "", "nightly", "import")


def any_command(world: World, dice: Random) -> c.Command:
    """Some command, more often one that moves work along."""
    is_idle = not any(job.unfinished for job in world.state.jobs.values())
    kind = c.SubmitJob if is_idle and dice.random() < 0.7 else dice.choice(_WEIGHTED)
    command = command_of(kind, world, dice)
    # Whoever settles ties is the coordinator itself, which asks once and repeats no request.
    if dice.random() < 0.05 and kind is not c.SettleTies:
        key, digest = f"r{dice.randrange(8)}", bytes([dice.randrange(2)])
        command = msgspec.structs.replace(command, request_key=key, request_digest=digest)
    return command


def command_of(kind: type[c.Command], world: World, dice: Random) -> c.Command:
    """A command of this kind, aimed at what the world holds."""
    return MAKERS[kind](world, dice)


def any_spec(dice: Random) -> JobSpec:
    """Small budgets and short times, so that limits are met and not only carried along."""
    kind = dice.choice(("none", "fixed", "linear", "exponential"))
    return JobSpec(
        name="work",
        kind="function",
        target="work",
        retries=dice.choice((0, 0, 1, 2)),
        max_losses=dice.choice((0, 1, 2, 10)),
        retry=RetryPolicy(kind=kind, delay_ms=dice.choice((0, 100, 1_000)), jitter=0.5),
        job_timeout_ms=dice.choice((0, 0, 0, 20_000)),
        schedule_timeout_ms=dice.choice((0, 0, 0, 10_000)),
        max_failed_tasks=dice.choice((NO_LIMIT, NO_LIMIT, 0, 1)),
        priority=dice.choice((0, 0, 1, -1)),
        retry_budget=circuits.any_budget(dice),
        circuit=circuits.any_circuit(dice),
    )


def pass_time(world: World, dice: Random) -> int:
    """Let some time go by: nothing, a moment, about a term, or more than any limit."""
    span_ms = dice.choice((0, 1, 90, 1_000, 5_000, 15_000, 40_000))
    world.sleep(span_ms)
    return span_ms


def _open_log(world: World, dice: Random) -> c.Command:
    epoch = world.state.epoch + dice.choice((1, 1, 1, 2, 0, -1))
    return c.OpenLog(
        log_id="log", epoch=epoch, version="test", host="host", pid=1, torn_bytes=0,
        term_ms=15_000, served=dice.random() < 0.5,
    )  # fmt: skip


def _submit_job(world: World, dice: Random) -> c.Command:
    if dice.random() < 0.15:
        return services.submit_service(world, dice)
    number = len(world.log)
    fresh = JobId(f"j{number}")
    job_id = fresh if dice.random() < 0.9 else dice.choice((JobId(""), a_job_id(world, dice)))
    is_open = dice.random() < 0.3
    items = tuple(b"item" for _ in range(dice.randrange(4))) if dice.random() < 0.5 else ()
    count = 0 if items else dice.choice((0, 1, 2, 3, 5))
    if dice.random() < 0.03:
        count = dice.choice((-1, 2**63, 10**30))
    key = dice.choice(KEYS)
    spec = any_spec(dice)
    placing = ties.any_placing(dice, whole=not is_open)
    soon = Instant(world.wall + dice.choice((1, 5_000, 60_000)))
    return c.SubmitJob(
        job_id=job_id,
        spec=msgspec.structs.replace(spec, placing=placing),
        key=key,
        digest=dice.choice((b"", b"one")) if key else b"",
        items=items,
        count=count,
        sealed=not is_open,
        delay_ms=dice.choice((0, 0, 0, 2_000, *ABSURD[:1])),
        not_before_wall=dice.choice((Instant(0),) * 5 + (soon,)),
        deadline_wall=dice.choice((Instant(0),) * 5 + (soon,)),
        **ties.any_ties(world, dice, key),
    )


def _add_tasks(world: World, dice: Random) -> c.Command:
    opened = list(world.state.open_jobs) or [a_job_id(world, dice)]
    job_id = dice.choice(opened)
    job = world.state.jobs.get(job_id)
    first = job.count if job is not None and dice.random() < 0.8 else dice.choice((0, 1, *ABSURD))
    items = tuple(b"more" for _ in range(dice.randrange(4)))
    return c.AddTasks(job_id=job_id, first=first, items=items)


def _seal_job(world: World, dice: Random) -> c.Command:
    opened = list(world.state.open_jobs) or [a_job_id(world, dice)]
    job_id = dice.choice(opened)
    job = world.state.jobs.get(job_id)
    count = job.count if job is not None and dice.random() < 0.85 else dice.choice((0, 1, *ABSURD))
    return c.SealJob(job_id=job_id, count=count, interrupted=dice.random() < 0.2)


def _grant_leases(world: World, dice: Random) -> c.Command:
    worker, term_ms = dice.choice(WORKERS)
    ready = world.leasable()
    if ready and dice.random() < 0.9:
        job_id = dice.choice(list(ready))
        indices = tuple(dice.sample(ready[job_id], min(len(ready[job_id]), dice.randrange(1, 5))))
    else:
        job_id = a_job_id(world, dice)
        indices = some_indices(world, dice, job_id)
    return c.GrantLeases(
        job_id=job_id, worker=worker, incarnation=dice.choice((1, 1, 2)), slot=dice.randrange(2),
        indices=indices, term_ms=term_ms if dice.random() < 0.98 else -1,
        alone=dice.random() < 0.1, rank=dice.choice((None, None, 0, 3)),
    )  # fmt: skip


def _ran(dice: Random) -> int:
    return dice.choice((0, 5, 2_000, *ABSURD))


def _start_attempts(world: World, dice: Random) -> c.Command:
    worker, incarnation, named = some_targets(world, dice)
    started = tuple(Started(*name, _ran(dice)) for name in named)
    return c.StartAttempts(worker=worker, incarnation=incarnation, started=started)


def _commit_tasks(world: World, dice: Random) -> c.Command:
    worker, incarnation, named = some_targets(world, dice)
    done = tuple(
        owed.any_done(dice, Done(*name, _ran(dice), b"result", owed.any_owed(dice)))
        for name in named
    )
    return c.CommitTasks(worker=worker, incarnation=incarnation, done=done)


def _fail_attempt(world: World, dice: Random) -> c.Command:
    worker, incarnation, named = some_targets(world, dice)
    job_id, index, lease_id = named[0] if named else (JobId("nobody"), Index(0), LeaseId(0))
    reason = dice.choice(("failed", "failed", "timed_out", "worker_lost", "killed", "nonsense"))
    failed = Failed(job_id, index, lease_id, _ran(dice), reason, "boom", "", dice.choice((1, None)))
    roll = dice.choice((dice.random(), 0.0, float("nan"), -1.0)) if dice.random() < 0.1 else 0.5
    return c.FailAttempt(worker=worker, incarnation=incarnation, failed=failed, roll=roll)


def _recover_stalled(world: World, dice: Random) -> c.Command:
    _, _, named = some_targets(world, dice)
    job_id, index, lease_id = named[0] if named else (JobId("nobody"), Index(0), LeaseId(0))
    delay_ms = dice.choice((0, 100, 60_000, *ABSURD[:1]))
    return c.RecoverStalled(
        job_id=job_id, index=index, lease_id=lease_id, error="it hung", delay_ms=delay_ms
    )


def _release_attempts(world: World, dice: Random) -> c.Command:
    worker, incarnation, named = some_targets(world, dice)
    released = tuple(Released(*name, dice.random() < 0.5) for name in named)
    reason = dice.choice(("released", "preempted", "undelivered", "undelivered", "nonsense"))
    return c.ReleaseAttempts(
        worker=worker, incarnation=incarnation, released=released, reason=reason
    )


def _extend_leases(world: World, dice: Random) -> c.Command:
    worker, incarnation, term_ms = a_worker(world, dice)
    spared = tuple(task.lease_id for task in some_held(world, dice, worker, incarnation))
    term_ms = dice.choice((term_ms, term_ms, 1, 0, -5))
    exceptions = spared if dice.random() < 0.2 else ()
    return c.ExtendLeases(
        worker=worker, incarnation=incarnation, term_ms=term_ms, exceptions=exceptions
    )


def _expire_leases(world: World, dice: Random) -> c.Command:
    worker, incarnation, _ = a_worker(world, dice)
    return c.ExpireLeases(worker=worker, incarnation=incarnation)


def _rearm_leases(world: World, dice: Random) -> c.Command:
    return c.RearmLeases(term_ms=dice.choice((15_000, 1, 0)))


def _lose_worker(world: World, dice: Random) -> c.Command:
    worker, incarnation, _ = a_worker(world, dice)
    return c.LoseWorker(worker=worker, incarnation=incarnation, error="it is gone")


def _kill_job(world: World, dice: Random) -> c.Command:
    cause = dice.choice(("cancelled", "cancelled", "deadline", ""))
    return c.KillJob(job_id=a_job_id(world, dice), cause=cause, reason="enough")


def _kill_tasks(world: World, dice: Random) -> c.Command:
    job_id = a_job_id(world, dice)
    return c.KillTasks(job_id=job_id, indices=some_indices(world, dice, job_id), reason="enough")


def _reschedule_task(world: World, dice: Random) -> c.Command:
    job_id = a_job_id(world, dice)
    wall = Instant(world.wall + dice.choice((1, 5_000))) if dice.random() < 0.3 else Instant(0)
    delay_ms = dice.choice((0, 100, 3_000, *ABSURD[:1]))
    return c.RescheduleTask(
        job_id=job_id, index=an_index(world, dice, job_id), delay_ms=delay_ms, not_before_wall=wall
    )


def _retry_tasks(world: World, dice: Random) -> c.Command:
    job_id = a_job_id(world, dice)
    indices = some_indices(world, dice, job_id) if dice.random() < 0.4 else ()
    spec = ties.edited_spec(world, dice, job_id)
    return c.RetryTasks(job_id=job_id, indices=indices, spec=spec)


def _install_snapshot(world: World, dice: Random) -> c.Command:
    place = world.state.position + dice.choice((0, 0, -1, 1))
    return c.InstallSnapshot(at_position=Position(place), state_hash=world.fingerprint())


def _tick(world: World, dice: Random) -> c.Command:
    held = frozenset({a_job_id(world, dice)}) if dice.random() < 0.3 else frozenset()
    return c.Tick(
        wall=world.wall,
        held=held,
        keep_finished=dice.choice((0, 1, 10_000)),
        keep_finished_ms=dice.choice((0, 10_000)),
        keep_keys_ms=dice.choice((0, 10_000)),
        keep_requests_ms=dice.choice((0, 10_000)),
        most=dice.choice((1, 1_000)),
        silent=tuple(world.state.open_jobs) if dice.random() < 0.1 else (),
        reasons=tuple((job_id, "nobody has a gpu") for job_id in world.state.jobs),
    )


MAKERS: Final[dict[type[c.Command], Callable[[World, Random], c.Command]]] = {
    c.OpenLog: _open_log,
    c.SubmitJob: _submit_job,
    c.AddTasks: _add_tasks,
    c.SealJob: _seal_job,
    c.GrantLeases: _grant_leases,
    c.StartAttempts: _start_attempts,
    c.CommitTasks: _commit_tasks,
    c.FailAttempt: _fail_attempt,
    c.ReleaseAttempts: _release_attempts,
    c.RecoverStalled: _recover_stalled,
    c.ExtendLeases: _extend_leases,
    c.ExpireLeases: _expire_leases,
    c.RearmLeases: _rearm_leases,
    c.LoseWorker: _lose_worker,
    c.KillJob: _kill_job,
    c.KillTasks: _kill_tasks,
    c.RescheduleTask: _reschedule_task,
    c.RetryTasks: _retry_tasks,
    c.InstallSnapshot: _install_snapshot,
    c.Tick: _tick,
    c.IssueToken: fleet.issue_token,
    c.RevokeToken: fleet.revoke_token,
    c.CordonWorker: fleet.cordon_worker,
    c.UncordonWorker: fleet.uncordon_worker,
    c.PauseQueue: fleet.pause_queue,
    c.ResumeQueue: fleet.resume_queue,
    c.RegisterEndpoint: fleet.register_endpoint,
    c.RemoveEndpoint: fleet.remove_endpoint,
    c.SettleTies: ties.settle_ties,
    c.GrantGang: ties.grant_gang,
    c.CommitGang: ties.commit_gang,
    c.PreemptAttempts: ties.preempt_attempts,
    c.SetLimit: ties.set_limit,
    c.ClearLimit: ties.clear_limit,
    s.SetSchedule: schedules.set_schedule,
    s.RemoveSchedule: schedules.remove_schedule,
    s.PauseSchedule: schedules.pause_schedule,
    s.ResumeSchedule: schedules.resume_schedule,
    s.FireSchedule: schedules.fire_schedule,
    s.SkipInstants: schedules.skip_instants,
    s.BackfillSchedule: schedules.backfill_schedule,
    c.ConfirmDeliveries: owed.confirm_deliveries,
    c.FailDelivery: owed.fail_delivery,
    c.ParkEffects: owed.park_effects,
    c.RetryEffects: owed.retry_effects,
    c.DiscardEffects: owed.discard_effects,
    c.OpenCircuit: circuits.open_circuit,
    c.CloseCircuit: circuits.close_circuit,
    c.SetAside: decided.set_aside,
    o.BeginOperation: operations.begin,
    o.EndOperation: operations.end,
    o.RestoreTasks: operations.restore,
    o.RescheduleTasks: operations.reschedule,
    c.ForkLog: lineage.fork_log,
    c.ResumeLog: lineage.resume_log,
    c.RecordRepair: lineage.record_repair,
    c.PurgeTasks: decided.purge_tasks,
    c.ForceTask: decided.force_task,
    c.RetryQuarantined: decided.retry_quarantined,
    c.PurgeQuarantined: decided.purge_quarantined,
    c.StopReplicas: services.stop_replicas,
    c.EndService: services.end_service,
    r.PutResource: resources.put,
    r.PutResourceStatus: resources.put_status,
    r.SetResourceFinalizers: resources.set_finalizers,
    r.MarkResourceDeleted: resources.mark_deleted,
}

_FREQUENT: Final[tuple[type[c.Command], ...]] = (
    c.GrantLeases, c.GrantLeases, c.GrantLeases, c.GrantLeases, c.StartAttempts, c.StartAttempts,
    c.CommitTasks, c.FailAttempt, c.FailAttempt, c.ConfirmDeliveries, c.ExtendLeases, c.RetryTasks,
    c.SettleTies, c.GrantGang, c.CommitGang, c.CloseCircuit,
    c.ResumeLog,
)  # fmt: skip
_WEIGHTED: Final[tuple[type[c.Command], ...]] = (*MAKERS, *_FREQUENT, *_FREQUENT, *_FREQUENT)

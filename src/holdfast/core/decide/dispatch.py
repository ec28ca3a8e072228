"""The one door: every change is a typed command that comes through here."""

from collections.abc import Callable
from typing import Any, Final

from holdfast.core import commands as c
from holdfast.core import commands_operations as o
from holdfast.core import commands_resources as r
from holdfast.core import commands_schedules as s
from holdfast.core import events as e
from holdfast.core.decide import (
    circuits,
    decided,
    fleet,
    forced,
    gangs,
    jobs,
    lineage,
    opening,
    operations,
    operator,
    owed,
    repair,
    reports,
    resources,
    schedules,
    services,
    stalls,
    tenure,
    tick,
    ties,
)
from holdfast.core.decision import Accepted, Decision, Reason, Refused, Repeated
from holdfast.core.ids import Instant
from holdfast.core.state import State

Decider = Callable[[State, Any, Instant], Decision]

DECIDERS: Final[dict[type[c.Command], Decider]] = {
    c.OpenLog: opening.open_log,
    c.SubmitJob: jobs.submit,
    c.AddTasks: jobs.add_tasks,
    c.SealJob: jobs.seal,
    c.GrantLeases: tenure.grant,
    c.StartAttempts: reports.start,
    c.CommitTasks: reports.commit,
    c.FailAttempt: reports.fail,
    c.ReleaseAttempts: reports.release,
    c.ExtendLeases: tenure.extend,
    c.ExpireLeases: tenure.expire,
    c.RearmLeases: tenure.rearm,
    c.LoseWorker: tenure.lose_worker,
    c.KillJob: operator.kill_job,
    c.KillTasks: operator.kill_tasks,
    c.RescheduleTask: operator.reschedule,
    c.RetryTasks: operator.retry,
    c.InstallSnapshot: opening.install_snapshot,
    c.Tick: tick.tick,
    c.IssueToken: fleet.issue_token,
    c.RevokeToken: fleet.revoke_token,
    c.CordonWorker: fleet.cordon,
    c.UncordonWorker: fleet.uncordon,
    c.PauseQueue: fleet.pause_queue,
    c.ResumeQueue: fleet.resume_queue,
    c.RegisterEndpoint: fleet.register_endpoint,
    c.RemoveEndpoint: fleet.remove_endpoint,
    c.SettleTies: ties.settle,
    c.GrantGang: gangs.grant,
    c.CommitGang: gangs.commit,
    c.PreemptAttempts: tenure.preempt,
    c.SetLimit: fleet.set_limit,
    c.ClearLimit: fleet.clear_limit,
    s.SetSchedule: schedules.set_schedule,
    s.RemoveSchedule: schedules.remove_schedule,
    s.PauseSchedule: schedules.pause_schedule,
    s.ResumeSchedule: schedules.resume_schedule,
    s.FireSchedule: schedules.fire,
    s.SkipInstants: schedules.skip,
    s.BackfillSchedule: schedules.backfill,
    c.ConfirmDeliveries: owed.confirm,
    c.FailDelivery: owed.fail,
    c.ParkEffects: owed.park,
    c.RetryEffects: owed.retry,
    c.DiscardEffects: owed.discard,
    c.OpenCircuit: circuits.open_circuit,
    c.CloseCircuit: circuits.close_circuit,
    c.RecoverStalled: stalls.recover,
    o.BeginOperation: operations.begin,
    o.EndOperation: operations.end,
    o.RestoreTasks: operations.restore,
    o.RescheduleTasks: operations.reschedule_many,
    c.SetAside: decided.set_aside,
    c.ForkLog: lineage.fork_log,
    c.ResumeLog: lineage.resume_log,
    c.RecordRepair: repair.record_repair,
    c.PurgeTasks: decided.purge,
    c.ForceTask: forced.force,
    c.RetryQuarantined: decided.retry_quarantined,
    c.PurgeQuarantined: decided.purge_quarantined,
    c.StopReplicas: services.stop_replicas,
    c.EndService: services.end_service,
    r.PutResource: resources.put,
    r.PutResourceStatus: resources.put_status,
    r.SetResourceFinalizers: resources.set_finalizers,
    r.MarkResourceDeleted: resources.mark_deleted,
}


def decide(state: State, command: c.Command, now: Instant) -> Decision:
    """What the command would make true. A request that was answered before adds nothing; the
    answer is then where it was answered."""
    if not command.request_key:
        return DECIDERS[type(command)](state, command, now)
    known = state.requests.get(command.request_key)
    if known is not None:
        if known.digest != command.request_digest:
            told = f"request {command.request_key!r} was made before with another body"
            return Refused(Reason.KEY_REUSED, told)
        return Accepted((), Repeated(known.position))
    decision = DECIDERS[type(command)](state, command, now)
    if isinstance(decision, Refused) or not decision.events:
        return decision
    noted = e.RequestNoted(key=command.request_key, digest=command.request_digest)
    return Accepted((noted, *decision.events), decision.answer)

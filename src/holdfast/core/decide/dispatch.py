"""The one door: every change is a typed command that comes through here."""

from collections.abc import Callable
from typing import Any, Final

from holdfast.core import commands as c
from holdfast.core.decide import jobs, opening, operator, reports, tenure, tick
from holdfast.core.decision import Decision
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
    c.ConfirmDelivery: reports.confirm_delivery,
    c.InstallSnapshot: opening.install_snapshot,
    c.Tick: tick.tick,
}


def decide(state: State, command: c.Command, now: Instant) -> Decision:
    return DECIDERS[type(command)](state, command, now)

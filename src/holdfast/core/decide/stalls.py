"""How an attempt that hangs is ended: by its budget, in one record, and only if it still is the
one that was found."""

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.decide.circuits import attempt_failed
from holdfast.core.decide.endings import FAILURES, end_of, settle_ends, within_budget
from holdfast.core.decide.jobs import unknown
from holdfast.core.decide.wishes import LARGEST
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import NEVER, Instant
from holdfast.core.state import State


def recover(state: State, command: c.RecoverStalled, now: Instant) -> Decision:
    """An attempt that had begun ends `timed_out` and is charged as a failure; one whose start was
    never heard of ends `undelivered`. Where another lease is current, or none, nothing happens: the
    answer is whether something did."""
    job = state.jobs.get(command.job_id)
    if job is None:
        return unknown(state, command.job_id)
    if not 0 <= command.delay_ms <= LARGEST:
        return Refused(Reason.INVALID, "a retry cannot wait for less than nothing, nor for ever")
    task = (job.tasks or {}).get(command.index)
    if task is None or not command.lease_id or task.lease_id != command.lease_id:
        return Accepted((), False)
    if task.expires_at != NEVER and task.expires_at <= now:
        # Time has ended it already, and only the record of that is still to come.
        return Accepted((), False)
    reason = EndReason.TIMED_OUT if task.started_at != NEVER else EndReason.UNDELIVERED
    end = end_of(job, task, reason, now, error=command.error, is_taken=True)
    if command.delay_ms:
        later = max(end.not_before, Instant(now + command.delay_ms))
        end = msgspec.structs.replace(end, not_before=later)
    end = within_budget(state, job, end, now)
    events: list[e.AnyEvent] = list(settle_ends(job, (end,), now))
    if end.charged == FAILURES:
        events.extend(attempt_failed(state, job, end, now))
    return Accepted(tuple(events), True)

"""Who may ask, who may work, how much, and where to reach it."""

from typing import Final

from msgspec import structs

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decide.jobs import unknown
from holdfast.core.decide.wishes import (
    LARGEST,
    WEIGHT_MAX,
    amounts_problem,
    is_name,
    named_problem,
)
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import Index, Instant, JobId, LeaseId
from holdfast.core.state import Limit, State
from holdfast.core.task import Task

SCOPES: Final = ("submit", "read", "cancel", "worker", "operator", "admin")

LIMIT_SCOPES: Final = ("namespace", "user", "key")
ENDPOINTS_MAX: Final = 64


def issue_token(state: State, command: c.IssueToken, now: Instant) -> Decision:
    """The answer is the token's id. A digest is never known twice: it stands for one secret."""
    strange = [scope for scope in command.scopes if scope not in SCOPES]
    if strange or not command.scopes:
        told = f"unknown scope {strange[0]!r}" if strange else "a token without a scope"
        return Refused(Reason.INVALID, f"{told}; there are {', '.join(SCOPES)}")
    if not command.token_id or not 0 <= command.expires_wall <= LARGEST:
        return Refused(Reason.INVALID, "a token has an id, and ends at an instant or never")
    if not is_name(command.name):
        return Refused(Reason.INVALID, f"a token called {command.name[:20]!r}")
    tokens = state.tokens.values()
    if any(t.token_id == command.token_id or t.digest == command.digest for t in tokens):
        return Refused(Reason.CONFLICT, f"token {command.token_id} exists already")
    issued = e.TokenIssued(
        token_id=command.token_id,
        name=command.name,
        digest=command.digest,
        scopes=tuple(dict.fromkeys(command.scopes)),
        worker=command.worker,
        expires_wall=command.expires_wall,
    )
    return Accepted((issued,), command.token_id)


def revoke_token(state: State, command: c.RevokeToken, now: Instant) -> Decision:
    if command.token_id not in state.tokens:
        return Refused(Reason.NOT_FOUND, f"there is no token {command.token_id}")
    return Accepted((e.TokenRevoked(token_id=command.token_id),))


def cordon(state: State, command: c.CordonWorker, now: Instant) -> Decision:
    """Holds for the name, whichever incarnation bears it, seen or not."""
    if not is_name(command.worker):
        return Refused(Reason.INVALID, "a worker is cordoned by its name")
    if state.cordoned.get(command.worker) == command.reason:
        return Accepted((), False)
    return Accepted((e.WorkerCordoned(worker=command.worker, reason=command.reason),), True)


def uncordon(state: State, command: c.UncordonWorker, now: Instant) -> Decision:
    if command.worker not in state.cordoned:
        return Accepted((), False)
    return Accepted((e.WorkerUncordoned(worker=command.worker),), True)


def pause_queue(state: State, command: c.PauseQueue, now: Instant) -> Decision:
    if not is_name(command.queue):
        return Refused(Reason.INVALID, "a queue is paused by its name")
    if state.paused.get(command.queue) == command.reason:
        return Accepted((), False)
    return Accepted((e.QueuePaused(queue=command.queue, reason=command.reason),), True)


def resume_queue(state: State, command: c.ResumeQueue, now: Instant) -> Decision:
    if command.queue not in state.paused:
        return Accepted((), False)
    return Accepted((e.QueueResumed(queue=command.queue),), True)


def set_limit(state: State, command: c.SetLimit, now: Instant) -> Decision:
    """The same limit again adds nothing; one that bounds nothing is no limit."""
    former = None if command.replaces else state.limits.get((command.scope, command.name))
    limit = _changed(former or Limit(), command)
    problem = _limit_problem(command, limit)
    if problem:
        return Refused(Reason.INVALID, problem)
    if state.limits.get((command.scope, command.name)) == limit:
        return Accepted((), False)
    limited = e.LimitSet(
        scope=command.scope,
        name=command.name,
        running=limit.running,
        starts=limit.starts,
        per_ms=limit.per_ms,
        weight=limit.weight,
        amounts=limit.amounts,
    )
    return Accepted((limited,), True)


def _changed(limit: Limit, command: c.SetLimit) -> Limit:
    """The limit as it will be: what the command names, and the rest as it was."""
    named = {
        "running": command.running, "starts": command.starts, "per_ms": command.per_ms,
        "weight": command.weight,
    }  # fmt: skip
    amounts = {**dict(limit.amounts), **dict(command.amounts)}
    return structs.replace(
        limit,
        amounts=tuple(sorted((name, most) for name, most in amounts.items() if most)),
        **{name: value for name, value in named.items() if value is not None},
    )


def _limit_problem(command: c.SetLimit, limit: Limit) -> str:
    if command.scope not in LIMIT_SCOPES:
        return f"unknown scope {command.scope!r}; there are {', '.join(LIMIT_SCOPES)}"
    if not is_name(command.name):
        return f"a {command.scope} called {command.name[:20]!r}"
    bounds = {"running": limit.running, "starts": limit.starts, "per_ms": limit.per_ms}
    told = named_problem("resource", command.amounts) or amounts_problem(bounds)
    if told:
        return told
    if bool(limit.starts) != bool(limit.per_ms):
        return "a rate is so many starts in a span: say both, or neither"
    if not 1 <= limit.weight <= WEIGHT_MAX:
        return f"a weight lies between 1 and {WEIGHT_MAX}; {limit.weight} does not"
    if limit.weight != 1 and command.scope != "namespace":
        return f"a {command.scope} has no weight: shares are those of namespaces"
    is_idle = not limit.running and not limit.starts and not limit.amounts
    if is_idle and command.scope != "namespace":
        return (
            "a limit bounds something: what is running, what that takes, or how often it starts"
        )
    return ""


def clear_limit(state: State, command: c.ClearLimit, now: Instant) -> Decision:
    if (command.scope, command.name) not in state.limits:
        return Accepted((), False)
    return Accepted((e.LimitCleared(scope=command.scope, name=command.name),), True)


def register_endpoint(state: State, command: c.RegisterEndpoint, now: Instant) -> Decision:
    """Only under a live lease, by its holder; the same again adds nothing."""
    task = _held(state, command, now)
    if isinstance(task, Refused):
        return task
    if not is_name(command.name) or not command.address:
        return Refused(Reason.INVALID, "an endpoint has a name and an address")
    same = [known for known in task.endpoints if known.name == command.name]
    if same and (same[0].address, same[0].metadata) == (command.address, command.metadata):
        return Accepted(())
    if not same and len(task.endpoints) >= ENDPOINTS_MAX:
        return Refused(Reason.TOO_LARGE, f"an attempt has at most {ENDPOINTS_MAX} endpoints")
    registered = e.EndpointRegistered(
        job_id=task.job_id,
        index=task.index,
        lease_id=task.lease_id,
        name=command.name,
        address=command.address,
        metadata=command.metadata,
    )
    return Accepted((registered,))


def remove_endpoint(state: State, command: c.RemoveEndpoint, now: Instant) -> Decision:
    task = _held(state, command, now)
    if isinstance(task, Refused):
        return task
    if all(known.name != command.name for known in task.endpoints):
        return Accepted(())
    removed = e.EndpointRemoved(
        job_id=task.job_id, index=task.index, lease_id=task.lease_id, name=command.name
    )
    return Accepted((removed,))


def _held(
    state: State, command: c.RegisterEndpoint | c.RemoveEndpoint, now: Instant
) -> Task | Refused:
    """The task this worker holds under this lease, now."""
    job_id: JobId = command.job_id
    job = state.jobs.get(job_id)
    if job is None:
        return unknown(state, job_id)
    index: Index = command.index
    lease_id: LeaseId = command.lease_id
    task = (job.tasks or {}).get(index)
    live = task is not None and task.lease_id == lease_id != 0
    if task is None or not live or (task.worker, task.incarnation) != (
        command.worker, command.incarnation,
    ):  # fmt: skip
        return Refused(Reason.LEASE_LOST, f"lease {lease_id} does not hold {job_id}/{index}")
    if task.expires_at and task.expires_at <= now:
        return Refused(Reason.LEASE_LOST, f"lease {lease_id} has run out")
    return task

"""What a user asked for, as one immutable value: how a job's tasks run and when they give up."""

from msgspec import Struct

from holdfast.core.placing import ANYWHERE, Placing

DEFAULT_MAX_LOSSES = 10
DEFAULT_QUEUE = "default"
DEFAULT_NAMESPACE = "default"
STOP = "stop"
"""For `on_disconnect`: the attempt is ended before its authority is."""
NO_LIMIT = -1
"""For limits where zero is a meaning of its own (`max_failed_tasks=0`: the first one ends it)."""

LONGEST_DELAY_MS = 10**12
LARGEST_FACTOR = 1_000.0


class RetryPolicy(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """How long a failed task waits before it is tried again.

    `kind` is `none`, `fixed`, `linear` or `exponential`. `jitter` is the share of the delay, 0 to
    1, that chance may take away; what it took is recorded with the failure, never asked again.
    `max_delay_ms` ends the growth; it never makes the wait shorter than `delay_ms` itself.
    """

    kind: str = "exponential"
    delay_ms: int = 1_000
    factor: float = 2.0
    max_delay_ms: int = 60_000
    jitter: float = 0.5


class RetryBudget(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """So many retries after failures in any span of `per_ms`, over all tasks of a job. None: no
    bound. What has no room waits; nothing is given up for it."""

    retries: int = 0
    per_ms: int = 0


class CircuitPolicy(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """So many failures in a row, over all that run the same function, and it is given out no more
    for `cooldown_ms` at first. None: it never is stopped so."""

    failures: int = 0
    cooldown_ms: int = 0


class ServicePolicy(
    Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True
):
    """That the tasks of a job are replicas of a service, which end only when they are told to, and
    how one that ended by itself is begun again. None: it is no service.

    Its budget is `restarts`, of which one comes back every `refill_ms`. It waits for `delay_ms`
    before it is begun again, twice as long after each further end, up to `max_delay_ms`, and from
    the beginning once it ran for `steady_ms`. It is reached under the name `endpoint`; empty: that
    of its job.
    """

    restarts: int = 0
    refill_ms: int = 600_000
    delay_ms: int = 1_000
    max_delay_ms: int = 60_000
    steady_ms: int = 60_000
    endpoint: str = ""


NOT_A_SERVICE = ServicePolicy()


class JobSpec(
    Struct, frozen=True, array_like=True, gc=False, cache_hash=True, forbid_unknown_fields=True
):
    """Everything replay must know about a job besides its items.

    The payload language is the worker's: `kind` and `target` say what runs, and mean nothing here.
    Zero means "no limit" for the times, `NO_LIMIT` for the counts. `bundle` names the code it needs
    by its digest; `on_disconnect` is empty or `STOP`. `user` is who submitted it, where a server
    knows that. `stall_ms`: how long an attempt may tell nothing of its progress. `service`: its
    tasks are replicas that do not end by themselves.
    """

    name: str
    kind: str
    target: str
    retries: int = 0
    max_losses: int = DEFAULT_MAX_LOSSES
    retry: RetryPolicy = RetryPolicy()
    timeout_ms: int = 0
    job_timeout_ms: int = 0
    schedule_timeout_ms: int = 0
    cpus_milli: int = 1_000
    memory_bytes: int = 0
    gpus: int = 0
    max_parallel: int = 0
    max_failed_tasks: int = NO_LIMIT
    priority: int = 0
    namespace: str = DEFAULT_NAMESPACE
    labels: tuple[tuple[str, str], ...] = ()
    queue: str = DEFAULT_QUEUE
    bundle: str = ""
    on_disconnect: str = ""
    user: str = ""
    placing: Placing = ANYWHERE
    stall_ms: int = 0
    retry_budget: RetryBudget = RetryBudget()
    circuit: CircuitPolicy = CircuitPolicy()
    service: ServicePolicy = NOT_A_SERVICE


def retry_problem(policy: RetryPolicy) -> str:
    """What is wrong with a policy, in words; empty when nothing is. Judged when a job is
    submitted, so that no later failure can meet a policy that cannot be computed."""
    if policy.kind not in ("none", "fixed", "linear", "exponential"):
        return f"unknown retry policy {policy.kind!r}"
    if not 0 <= policy.delay_ms <= LONGEST_DELAY_MS:
        return f"a retry delay of {policy.delay_ms} ms"
    if not 0 <= policy.max_delay_ms <= LONGEST_DELAY_MS:
        return f"a longest retry delay of {policy.max_delay_ms} ms"
    # Written so that "not a number" is refused too.
    if not 0.0 <= policy.factor <= LARGEST_FACTOR:
        return f"a retry factor of {policy.factor}"
    return "" if 0.0 <= policy.jitter <= 1.0 else f"a jitter of {policy.jitter}"


def retry_delay_ms(policy: RetryPolicy, failures: int, roll: float) -> int:
    """The wait after the `failures`-th failure. `roll` in [0, 1) is chance, thrown outside."""
    if policy.kind == "none":
        return 0
    if policy.kind == "fixed":
        delay = float(policy.delay_ms)
    elif policy.kind == "linear":
        delay = float(policy.delay_ms) * failures
    elif policy.kind == "exponential":
        # The exponent is bounded because a float overflows long before anyone retries so often.
        delay = policy.delay_ms * policy.factor ** min(failures - 1, 64)
    else:
        raise ValueError(f"unknown retry policy {policy.kind!r}")
    capped = min(delay, float(max(policy.max_delay_ms, policy.delay_ms)))
    return int(capped * (1.0 - policy.jitter * roll))


def loss_delay_ms(losses: int) -> int:
    """The wait after a lost attempt: none after the first, since the worker was at fault, then
    growing, since a task that keeps losing its worker may be what kills it."""
    if losses <= 1:
        return 0
    return int(min(100 * 2 ** min(losses - 2, 16), 30_000))

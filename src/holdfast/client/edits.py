"""Other terms for a job that is sent back, in the words of `@task`."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypedDict

import msgspec

from holdfast.client.placing import Keys, constraints_from, keys_from
from holdfast.core.placing import Placing
from holdfast.wire.amounts import Duration, duration_ms, size_bytes
from holdfast.wire.bodies import Edits
from holdfast.wire.wishes import placing_told

SPANS: Final = ("timeout", "job_timeout", "schedule_timeout", "stall_timeout")


class Terms(TypedDict, total=False):
    """What may be different the next time. What is left out stays as it was; `require` and
    `prefer` take the place of all that was required and preferred."""

    retries: int
    max_losses: int
    timeout: Duration | None
    job_timeout: Duration | None
    schedule_timeout: Duration | None
    stall_timeout: Duration | None
    cpus: float
    memory: int | str | None
    gpus: int
    max_parallel: int
    max_failed_tasks: int | None
    retry_budget: str
    circuit: str
    priority: int
    queue: str
    labels: Mapping[str, str]
    resources: Mapping[str, float]
    require: str | Iterable[str]
    prefer: str | Iterable[str]
    concurrency: Keys
    spread: str
    gang_by: str
    preempt: bool


def edits_from(terms: Mapping[str, Any]) -> Edits | None:
    """The same as it is asked for; None where nothing is to be different."""
    if not terms:
        return None
    unknown = sorted(set(terms) - set(Terms.__annotations__))
    if unknown:
        known = ", ".join(Terms.__annotations__)
        raise ValueError(f"{unknown[0]!r} cannot be changed by a retry; there are {known}")
    told = dict(terms)
    if "require" in told or "prefer" in told:
        wishes = constraints_from(told.pop("require", ()), told.pop("prefer", ()))
        told["constraints"] = placing_told(Placing(constraints=wishes))["constraints"]
    if "concurrency" in told:
        told["keys"] = keys_from(told.pop("concurrency"))
    for name in SPANS:
        if name in told:
            told[name] = f"{duration_ms(told[name], name)}ms"
    if "memory" in told:
        told["memory"] = str(size_bytes(told["memory"], "memory"))
    try:
        return msgspec.convert(told, Edits)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None

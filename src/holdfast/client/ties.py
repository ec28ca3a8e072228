"""The words of a program that tie a job to others: after which, under which, instead of which."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeGuard

from holdfast.client.handles import Handle, Job
from holdfast.core.commands import EXISTING, KEEP
from holdfast.core.ids import JobId
from holdfast.core.placing import CONDITIONS, FAIL, FATES, After
from holdfast.wire.amounts import duration_ms
from holdfast.wire.wishes import after_of
from holdfast.worker.seat import current_job

CURRENT: Final = "current"

JobNamed = str | Job[Any] | Handle[Any]
"""A job: what a call returned, or its id."""

Earlier = JobNamed | tuple[str, JobNamed]
"""What a job comes after: a job, a task (`12/3`), or either with a condition before it."""


def job_id_of(job: JobNamed) -> JobId:
    return JobId(job.id if isinstance(job, Job | Handle) else str(job))


def ties_from(words: Mapping[str, Any]) -> dict[str, Any]:
    """The same as fields of a submit; a mistake is a `ValueError` where it was made."""
    parent = "" if words["parent"] is None else job_id_of(words["parent"])
    if parent == CURRENT:
        parent = JobId(current_job())
        if not parent:
            raise ValueError("parent='current' is for code that runs inside a task; this does not")
    existing = _one_of(words, "existing", EXISTING) or KEEP
    if not words["key"] and (existing != KEEP or words["unique_for"] is not None):
        raise ValueError("existing and unique_for are about jobs of the same key: give it one")
    if words["detached"] and not parent:
        raise ValueError("detached=True is for a job with a parent")
    return {
        "after": tuple(map(_after, _listed(words["after"]))),
        "fate": _one_of(words, "on_failed_parent", FATES) or FAIL,
        "parent": parent,
        "detached": bool(words["detached"]),
        "unique_for_ms": duration_ms(words["unique_for"], "unique_for"),
        "existing": existing,
    }


def _one_of(words: Mapping[str, Any], name: str, known: tuple[str, ...]) -> str:
    value = words[name]
    if value is not None and value not in known:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(known)}")
    return value or ""


def _listed(after: Earlier | Iterable[Earlier] | None) -> Iterable[Earlier]:
    if after is None:
        return ()
    if isinstance(after, str | Job | Handle):
        return [after]
    return [after] if _is_condition(after) else after


def _is_condition(told: object) -> TypeGuard[tuple[str, JobNamed]]:
    return isinstance(told, tuple) and len(told) == 2 and told[0] in CONDITIONS


def _after(told: Earlier) -> After:
    if not isinstance(told, tuple):
        return after_of(job_id_of(told) if isinstance(told, Job | Handle) else str(told))
    if not _is_condition(told):
        raise ValueError(
            f"after={told!r}: write a job, '12/3', or a pair such as ('failure', job); there are "
            f"{', '.join(CONDITIONS)}"
        )
    condition, job = told
    return after_of(f"{job_id_of(job)}:{condition}")

"""Between a job as it is asked for and a job as it is recorded, both ways."""

from datetime import datetime
from typing import Any

from msgspec import UNSET, structs

from holdfast.core.spec import NO_LIMIT, STOP, CircuitPolicy, JobSpec, RetryBudget, RetryPolicy
from holdfast.wire.amounts import duration_ms, size_bytes, wall_ms
from holdfast.wire.bodies import Edits, Retry, Submit
from holdfast.wire.rates import guard_of, rate_text
from holdfast.wire.wishes import placing_of, placing_told

KINDS = ("command", "function", "array", "pickle")


def spec_of(body: Submit) -> JobSpec:
    """The spec a body asks for; `ValueError` says what is wrong with it."""
    if body.kind not in KINDS:
        raise ValueError(f"kind={body.kind!r} must be one of {', '.join(KINDS)}")
    if body.on_disconnect not in ("", STOP):
        raise ValueError(f"on_disconnect={body.on_disconnect!r} must be empty or {STOP!r}")
    target = body.target
    if body.kind == "command":
        if body.command is None or not body.command.argv:
            raise ValueError("a command needs at least a program: command.argv")
        target = body.command.argv[0]
    elif not target:
        raise ValueError("a function needs a target: module:qualname")
    return JobSpec(
        name=body.name or target.rpartition("/")[2].rpartition(":")[2],
        kind=body.kind,
        target=target,
        namespace=body.namespace,
        bundle=body.bundle,
        on_disconnect=body.on_disconnect,
        **_terms(body),
    )


def edited(spec: JobSpec, edits: Edits) -> JobSpec:
    """The same job under the terms that `edits` names; `ValueError` says what is wrong."""
    body = body_of(spec)
    for name in Edits.__struct_fields__:
        value = getattr(edits, name)
        if value is not UNSET:
            setattr(body, name, value)
    return structs.replace(spec, **_terms(body))


def _terms(body: Submit) -> dict[str, Any]:
    """How and where it runs: what may be different when it is sent back."""
    if not 0 <= body.cpus < 10**6:
        raise ValueError(f"cpus={body.cpus!r} must be between 0 and 1000000")
    return {
        "retries": body.retries,
        "max_losses": body.max_losses,
        "retry": RetryPolicy(
            kind=body.retry.backoff,
            delay_ms=duration_ms(body.retry.delay, "retry.delay"),
            factor=body.retry.factor,
            max_delay_ms=duration_ms(body.retry.max_delay, "retry.max_delay"),
            jitter=body.retry.jitter,
        ),
        "timeout_ms": _duration(body.timeout, "timeout"),
        "job_timeout_ms": _duration(body.job_timeout, "job_timeout"),
        "schedule_timeout_ms": _duration(body.schedule_timeout, "schedule_timeout"),
        "stall_ms": _duration(body.stall_timeout, "stall_timeout"),
        "cpus_milli": round(body.cpus * 1_000),
        "memory_bytes": size_bytes(body.memory or None, "memory"),
        "gpus": body.gpus,
        "max_parallel": body.max_parallel,
        "max_failed_tasks": NO_LIMIT if body.max_failed_tasks is None else body.max_failed_tasks,
        "priority": body.priority,
        "labels": tuple(sorted(body.labels.items())),
        "queue": body.queue,
        "placing": placing_of(body),
        "retry_budget": RetryBudget(*guard_of(body.retry_budget, "retry_budget", "100/1m")),
        "circuit": CircuitPolicy(*guard_of(body.circuit, "circuit", "5/1m")),
    }


def body_of(spec: JobSpec) -> Submit:
    """The body that asks for this spec."""
    return Submit(
        kind=spec.kind,
        name=spec.name,
        target=spec.target,
        retries=spec.retries,
        max_losses=spec.max_losses,
        retry=Retry(
            backoff=spec.retry.kind,
            delay=_ms(spec.retry.delay_ms),
            factor=spec.retry.factor,
            max_delay=_ms(spec.retry.max_delay_ms),
            jitter=spec.retry.jitter,
        ),
        timeout=_ms(spec.timeout_ms) if spec.timeout_ms else "",
        job_timeout=_ms(spec.job_timeout_ms) if spec.job_timeout_ms else "",
        schedule_timeout=_ms(spec.schedule_timeout_ms) if spec.schedule_timeout_ms else "",
        stall_timeout=_ms(spec.stall_ms) if spec.stall_ms else "",
        cpus=spec.cpus_milli / 1_000,
        memory=str(spec.memory_bytes) if spec.memory_bytes else "",
        gpus=spec.gpus,
        max_parallel=spec.max_parallel,
        max_failed_tasks=None if spec.max_failed_tasks == NO_LIMIT else spec.max_failed_tasks,
        priority=spec.priority,
        namespace=spec.namespace,
        labels=dict(spec.labels),
        queue=spec.queue,
        bundle=spec.bundle,
        on_disconnect=spec.on_disconnect,
        retry_budget=_guard(spec.retry_budget.retries, spec.retry_budget.per_ms),
        circuit=_guard(spec.circuit.failures, spec.circuit.cooldown_ms),
        **placing_told(spec.placing),
    )


def instant_of(text: str, name: str) -> int:
    """Milliseconds since 1970 of an RFC 3339 instant; empty is none."""
    if not text:
        return 0
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        told = f"{name}={text!r} is not an instant such as 2026-03-01T12:00:00Z"
        raise ValueError(told) from None
    return wall_ms(moment, name)


def _duration(text: str, name: str) -> int:
    return duration_ms(text or None, name)


def _guard(count: int, span_ms: int) -> str:
    return rate_text(count, span_ms) if count else ""


def _ms(span: int) -> str:
    return f"{span}ms"

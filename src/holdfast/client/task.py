"""`@task`: a function with a policy. A plain call still runs here and now."""

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

from msgspec import Struct, structs

from holdfast.client.placing import PLACING_WORDS, Keys, Texts, placing_from
from holdfast.core.placing import ANYWHERE, Placing
from holdfast.core.spec import (
    DEFAULT_MAX_LOSSES,
    DEFAULT_NAMESPACE,
    DEFAULT_QUEUE,
    NO_LIMIT,
    CircuitPolicy,
    JobSpec,
    RetryBudget,
    RetryPolicy,
)
from holdfast.wire.amounts import Duration, duration_ms, number, size_bytes, text, whole
from holdfast.wire.rates import guard_of, rate_of

P = ParamSpec("P")
R = TypeVar("R")

BACKOFFS = ("none", "fixed", "linear", "exponential")
MOST_CPUS = 1_000_000
GUARDS = (("retry_budget", "100/1m"), ("circuit", "5/1m"))


class Options(Struct, frozen=True, kw_only=True):
    """How a function's tasks run. Checked when made, so a mistake shows where it was written."""

    retries: int = 0
    max_losses: int = DEFAULT_MAX_LOSSES
    timeout: Duration | None = None
    job_timeout: Duration | None = None
    schedule_timeout: Duration | None = None
    stall_timeout: Duration | None = None
    backoff: str = "exponential"
    retry_delay: Duration = 1.0
    max_retry_delay: Duration = 60.0
    jitter: float = 0.5
    cpus: float = 1
    memory: int | str | None = None
    gpus: int = 0
    max_parallel: int | None = None
    max_failed_tasks: int | None = None
    retry_budget: str = ""
    circuit: str = ""
    priority: int = 0
    queue: str = DEFAULT_QUEUE
    namespace: str = DEFAULT_NAMESPACE
    name: str | None = None
    labels: dict[str, str] = {}
    pickle: bool = False
    resources: dict[str, float] = {}
    require: Texts = ()
    prefer: Texts = ()
    spread: str = ""
    gang: bool = False
    gang_by: str = ""
    preempt: bool = False
    concurrency: Keys = {}

    def __post_init__(self) -> None:
        for name in ("retries", "max_losses", "gpus", "max_failed_tasks", "max_parallel"):
            value = getattr(self, name)
            if value is not None and whole(value, name) < 0:
                raise ValueError(f"{name}={value!r} cannot be negative")
        whole(self.priority, "priority")
        text(self.name, "name")
        for name in ("queue", "namespace"):
            if not text(getattr(self, name), name):
                raise ValueError(f"{name} cannot be empty")
        for name in ("cpus", "jitter"):
            number(getattr(self, name), name)
        if not 0 <= self.cpus < MOST_CPUS:
            raise ValueError(f"cpus={self.cpus!r} must be between 0 and {MOST_CPUS}")
        for key, value in self.labels.items():
            text(key, "a label")
            text(value, f"label {key}")
        if self.max_parallel is not None and self.max_parallel < 1:
            raise ValueError(f"max_parallel={self.max_parallel!r} must be at least 1")
        if self.backoff not in BACKOFFS:
            raise ValueError(f"backoff={self.backoff!r} must be one of {', '.join(BACKOFFS)}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter={self.jitter!r} must be between 0 and 1")
        duration_ms(self.timeout, "timeout")
        duration_ms(self.job_timeout, "job_timeout")
        duration_ms(self.schedule_timeout, "schedule_timeout")
        duration_ms(self.stall_timeout, "stall_timeout")
        duration_ms(self.retry_delay, "retry_delay")
        duration_ms(self.max_retry_delay, "max_retry_delay")
        size_bytes(self.memory, "memory")
        for name, example in GUARDS:
            guard_of(text(getattr(self, name), name) or "", name, example)
        self.placing()

    def placing(self) -> Placing:
        """Where its tasks may run, and beside which."""
        words = {name: getattr(self, name) for name in PLACING_WORDS}
        return placing_from(words) if any(words.values()) else ANYWHERE

    def spec(self, kind: str, target: str, name: str) -> JobSpec:
        """The same, as the core records it."""
        return JobSpec(
            name=self.name or name,
            kind=kind,
            target=target,
            retries=self.retries,
            max_losses=self.max_losses,
            retry=RetryPolicy(
                kind=self.backoff,
                delay_ms=duration_ms(self.retry_delay, "retry_delay"),
                max_delay_ms=duration_ms(self.max_retry_delay, "max_retry_delay"),
                jitter=self.jitter,
            ),
            timeout_ms=duration_ms(self.timeout, "timeout"),
            job_timeout_ms=duration_ms(self.job_timeout, "job_timeout"),
            schedule_timeout_ms=duration_ms(self.schedule_timeout, "schedule_timeout"),
            stall_ms=duration_ms(self.stall_timeout, "stall_timeout"),
            cpus_milli=round(self.cpus * 1_000),
            memory_bytes=size_bytes(self.memory, "memory"),
            gpus=self.gpus,
            max_parallel=self.max_parallel or 0,
            max_failed_tasks=NO_LIMIT if self.max_failed_tasks is None else self.max_failed_tasks,
            priority=self.priority,
            queue=self.queue,
            namespace=self.namespace,
            labels=tuple(sorted(self.labels.items())),
            placing=self.placing(),
            retry_budget=RetryBudget(*rate_of(self.retry_budget)),
            circuit=CircuitPolicy(*rate_of(self.circuit)),
        )


_USUAL: Final = Options()


class TaskFunction(Generic[P, R]):
    """A function that can be submitted. Calling it is calling the function."""

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        self.__holdfast_function__ = function
        self.holdfast_options = options
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__holdfast_function__(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A task that is a method is called with its object, as any method is."""
        return self if instance is None else MethodType(self, instance)

    def options(self, **changes: Any) -> "TaskFunction[P, R]":
        """The same function with other options: `resize.options(retries=5)`."""
        return TaskFunction(
            self.__holdfast_function__, structs.replace(self.holdfast_options, **changes)
        )

    def __repr__(self) -> str:
        inner = self.__holdfast_function__
        return f"<task {inner.__module__}.{inner.__qualname__}>"


@overload
def task(function: Callable[P, R], /) -> TaskFunction[P, R]: ...


@overload
def task(
    *,
    retries: int = ...,
    max_losses: int = ...,
    timeout: Duration | None = ...,
    job_timeout: Duration | None = ...,
    schedule_timeout: Duration | None = ...,
    stall_timeout: Duration | None = ...,
    backoff: str = ...,
    retry_delay: Duration = ...,
    max_retry_delay: Duration = ...,
    jitter: float = ...,
    cpus: float = ...,
    memory: int | str | None = ...,
    gpus: int = ...,
    max_parallel: int | None = ...,
    max_failed_tasks: int | None = ...,
    retry_budget: str = ...,
    circuit: str = ...,
    priority: int = ...,
    queue: str = ...,
    namespace: str = ...,
    name: str | None = ...,
    labels: dict[str, str] = ...,
    pickle: bool = ...,
    resources: dict[str, float] = ...,
    require: Texts = ...,
    prefer: Texts = ...,
    spread: str = ...,
    gang: bool = ...,
    gang_by: str = ...,
    preempt: bool = ...,
    concurrency: Keys = ...,
) -> Callable[[Callable[P, R]], TaskFunction[P, R]]: ...


def task(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function submittable, with how often to retry it and how long it may take.

    `@task` alone takes the defaults. The signature is kept for type checkers.
    """
    if function is not None:
        return TaskFunction(function, Options())
    checked = Options(**options)
    return lambda function: TaskFunction(function, checked)


def options_of(function: Callable[..., Any]) -> Options:
    found = getattr(function, "holdfast_options", None)
    return found if isinstance(found, Options) else _USUAL

"""`holdfast.open`: coordinator and local workers inside this program."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from holdfast.client.holdfast import DEFAULT_GRACE, Holdfast
from holdfast.client.local import Local
from holdfast.client.localworker import MakeExecutor, Offers
from holdfast.client.sinks import Given, sinks_given
from holdfast.coordinator.settings import ON_VIOLATION, RECOVERIES, Settings, one_of
from holdfast.wire.amounts import Duration, duration_ms, number, size_bytes, text, whole
from holdfast.wire.contents import INLINE_BYTES, RESULT_BYTES_MAX
from holdfast.wire.wishes import amounts_of
from holdfast.worker.functions import MissingGuard, loading_script

EXECUTORS = ("threads", "processes")


def open(
    path: str | Path,
    *,
    executor: Literal["threads", "processes"] = "threads",
    workers: int | None = None,
    grace: Duration = DEFAULT_GRACE,
    history: int | str | None = "256Mi",
    archive: str | Path | None = None,
    keep_finished: int = 10_000,
    result_size: int | str = "1Gi",
    resources: Mapping[str, float] | None = None,
    attributes: Mapping[str, str | float] | None = None,
    sinks: Mapping[str, Given] | None = None,
    strict: bool = False,
    stall_timeout: Duration | None = "10m",
    stall_recovery: Literal["auto", "ask"] = "auto",
    stall_delay: Duration = "60s",
    check_interval: Duration | None = "15m",
    on_violation: Literal["tell", "stop"] = "tell",
    disk_low: int | str | None = None,
    disk_stop: int | str | None = None,
) -> Holdfast:
    """Open the folder at `path`, creating it where absent, and go on with what it holds.

    `threads` is fast and cannot kill a task; `processes` survives what user code may do. `workers`
    is how many tasks run at once, by default one a processor. Leaving waits up to `grace` for what
    runs. `history` is how much log is kept to look back on, at least (None: all); what is older
    goes to the folder `archive`, or is deleted. `keep_finished` jobs stay at hand after they end.
    `result_size` is how large the result of a task may be. `resources` and `attributes` are what
    tasks may ask for by name, and require. `sinks` are where effects go, by the names that tasks
    give: definitions, or functions called with each effect. `strict` turns a repeat of what was
    done before into an error that changes nothing: a submit with a known key, a cancel, a retry.
    What hangs for `stall_timeout` is found (None: nothing is); `auto` ends an attempt that does,
    and its task waits `stall_delay`, `ask` waits for `approve_stall`.
    Everything is checked every `check_interval` (None: never); `health()` tells what was found.
    Below `disk_low` free bytes no more work is taken, below `disk_stop` only what runs may end.
    """
    _check_loaded()
    one_of(executor, EXECUTORS, "executor")
    slots = _slots(workers)
    # Before the folder is taken: a mistake here must not leave it locked.
    grace_ms = duration_ms(grace, "grace")
    given = sinks_given(sinks, executor)
    settings = Settings(
        result_bytes=_largest(result_size),
        history_bytes=_bytes_or_none(history, "history"),
        archive=None if archive is None else Path(archive).absolute(),
        keep_finished=_kept(keep_finished),
        sinks=given.defined,
        strict=strict,
        stall_ms=duration_ms(stall_timeout, "stall_timeout"),
        stall_recovery=one_of(stall_recovery, RECOVERIES, "stall_recovery"),
        stall_delay_ms=duration_ms(stall_delay, "stall_delay"),
        check_ms=duration_ms(check_interval, "check_interval"),
        on_violation=one_of(on_violation, ON_VIOLATION, "on_violation"),
        disk_low=_bytes_or_none(disk_low, "disk_low"),
        disk_stop=_bytes_or_none(disk_stop, "disk_stop"),
    )
    offers = Offers(amounts_of(resources or {}), _named(attributes or {}), given.deliverer)
    return Holdfast(Local(Path(path), _maker(executor), slots, settings, offers), grace_ms)


def _check_loaded() -> None:
    loading = loading_script()
    if loading is not None:
        raise MissingGuard(loading)


def _kept(keep_finished: int) -> int:
    if keep_finished < 0:
        raise ValueError(f"keep_finished={keep_finished!r} cannot be negative")
    return keep_finished


def _bytes_or_none(size: int | str | None, name: str) -> int | None:
    return None if size is None else size_bytes(size, name)


def _named(attributes: Mapping[str, str | float]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, _attribute(value, name)) for name, value in attributes.items()))


def _slots(workers: int | None) -> int:
    slots = (os.cpu_count() or 1) if workers is None else whole(workers, "workers")
    if slots < 1:
        raise ValueError(f"workers={workers!r} must be at least 1")
    return slots


def _largest(result_size: int | str) -> int:
    largest = size_bytes(result_size, "result_size")
    if not INLINE_BYTES <= largest <= RESULT_BYTES_MAX:
        raise ValueError(f"result_size={result_size!r} must be from 64Ki to 1Gi")
    return largest


def _attribute(value: str | float, name: str) -> str:
    """Constraints compare numbers as numbers, so that a program may write them so."""
    return text(value, name) if isinstance(value, str) else str(number(value, name))


def _maker(executor: str) -> MakeExecutor:
    if executor == "threads":
        from holdfast.worker.threads import ThreadExecutor

        return ThreadExecutor
    from holdfast.worker.processes import ProcessExecutor

    return ProcessExecutor

"""How facts about what commits owe are told. An entry is called `JOB/INDEX.N`."""

from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.core import events as e
from holdfast.core.action import Action, Details, Renderer, ranges
from holdfast.core.ids import effect_name, task_name
from holdfast.core.record import Record


def _each(
    action: str, job_id: str, settled: Iterable[e.Settled], details: Details
) -> Iterator[Action]:
    for one in settled:
        yield Action(action, effect_name(job_id, one.index, one.number), details)


def _committed(event: e.TaskCommitted, record: Record) -> Iterator[Action]:
    name = task_name(event.job_id, event.commit.index)
    yield Action("task_committed", name, {"owed": len(event.owed)})
    yield Action("task_unassigned", name, {"worker_id": event.worker})


def _delivered(event: e.EffectsDelivered, record: Record) -> Iterator[Action]:
    yield from _each("effect_delivered", event.job_id, event.settled, {})


def _failed(event: e.DeliveryFailed, record: Record) -> Iterator[Action]:
    name = effect_name(event.job_id, event.index, event.number)
    told: Details = {"error": event.error, "tries": event.tries, "not_before": event.not_before}
    yield Action("delivery_failed", name, told)


def _parked(event: e.EffectsParked, record: Record) -> Iterator[Action]:
    for parked in event.parked:
        name = effect_name(event.job_id, parked.index, parked.number)
        yield Action("effect_parked", name, {"error": parked.error, "tries": parked.tries})


def _retried(event: e.EffectsRetried, record: Record) -> Iterator[Action]:
    yield from _each("effect_retried", event.job_id, event.settled, {})


def _discarded(event: e.EffectsDiscarded, record: Record) -> Iterator[Action]:
    yield from _each("effect_discarded", event.job_id, event.settled, {"reason": event.reason})


def _done(event: e.TasksDone, record: Record) -> Iterator[Action]:
    done: list[tuple[int, int, Details]] = [(i, i, {"exit_code": 0}) for i in event.indices]
    yield from ranges("task_succeeded", event.job_id, done)


OWED: Final[dict[type[e.Event], Renderer]] = {
    e.TaskCommitted: _committed,
    e.EffectsDelivered: _delivered,
    e.DeliveryFailed: _failed,
    e.EffectsParked: _parked,
    e.EffectsRetried: _retried,
    e.EffectsDiscarded: _discarded,
    e.TasksDone: _done,
}

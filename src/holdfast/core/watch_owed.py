"""The history of what commits owe, watched: every entry is settled once, and a task is done with
its last one, in the same record."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from holdfast.core import events as e
from holdfast.core.ids import Instant, effect_name, task_name
from holdfast.core.record import Record
from holdfast.core.seen import COMMITTED, Seen, SeenDebt
from holdfast.core.violation import Finding

Settling = e.EffectsDelivered | e.EffectsDiscarded


def owes(seen: Seen, event: e.TaskCommitted) -> None:
    """What a task owes from its commit on."""
    seen.owed = {
        number: SeenDebt(is_block=entry.kind == "block")
        for number, entry in enumerate(event.owed)
    }


def unsettled(watch: Any, record: Record) -> Iterator[Finding]:
    """C4: whoever owes nothing is done, and it is done in the record that settled the last."""
    for event in record.events:
        if isinstance(event, Settling) and event.job_id in watch.jobs:
            for index in dict.fromkeys(settled.index for settled in event.settled):
                seen = watch.task(event.job_id, index)
                if seen.state == COMMITTED and not seen.owed:
                    yield task_name(event.job_id, index), "it owes nothing and is not done"


def _entry(
    watch: Any, event: e.Event, job_id: str, index: int, number: int
) -> Iterator[Finding | SeenDebt]:
    """The entry an event names; a finding where nothing of the kind is owed."""
    yield from watch.move(event, job_id, index)
    debt = watch.task(job_id, index).owed.get(number)
    if debt is None:
        yield effect_name(job_id, index, number), f"C4 {type(event).__name__} and it is not owed"
    else:
        yield debt


def _settled(watch: Any, event: Settling, at: Instant) -> Iterator[Finding]:
    for settled in event.settled:
        for told in _entry(watch, event, event.job_id, settled.index, settled.number):
            if not isinstance(told, SeenDebt):
                yield told
        watch.task(event.job_id, settled.index).owed.pop(settled.number, None)


def _failed(watch: Any, event: e.DeliveryFailed, at: Instant) -> Iterator[Finding]:
    """C4: a try that failed is one more, and comes again; nobody tries what is parked."""
    name = effect_name(event.job_id, event.index, event.number)
    for told in _entry(watch, event, event.job_id, event.index, event.number):
        if not isinstance(told, SeenDebt):
            yield told
            continue
        if told.parked or told.is_block:
            yield name, "C4 it was to be tried again and nobody may"
        if event.tries != told.tries + 1 or event.not_before < at:
            yield name, f"C4 try {event.tries} follows {told.tries}, at {event.not_before}"
        told.tries = event.tries


def _parked(watch: Any, event: e.EffectsParked, at: Instant) -> Iterator[Finding]:
    for parked in event.parked:
        name = effect_name(event.job_id, parked.index, parked.number)
        for told in _entry(watch, event, event.job_id, parked.index, parked.number):
            if not isinstance(told, SeenDebt):
                yield told
                continue
            if told.parked or parked.tries not in (told.tries, told.tries + 1):
                yield name, f"C4 it was parked after {parked.tries} tries, {told.tries} known"
            told.parked, told.tries = True, parked.tries


def _retried(watch: Any, event: e.EffectsRetried, at: Instant) -> Iterator[Finding]:
    for settled in event.settled:
        name = effect_name(event.job_id, settled.index, settled.number)
        for told in _entry(watch, event, event.job_id, settled.index, settled.number):
            if not isinstance(told, SeenDebt):
                yield told
                continue
            if told.is_block:
                yield name, "C4 a block would run a second time"
            told.parked, told.tries = False, 0


def _done(watch: Any, event: e.TasksDone, at: Instant) -> Iterator[Finding]:
    for index in event.indices:
        yield from watch.move(event, event.job_id, index)
        owed = watch.task(event.job_id, index).owed
        if owed:
            yield task_name(event.job_id, index), f"C4 it is done and owes {len(owed)} entries"


OWED_JUDGES: Final[dict[type[e.Event], Callable[[Any, Any, Instant], Iterator[Finding]]]] = {
    e.EffectsDelivered: _settled,
    e.DeliveryFailed: _failed,
    e.EffectsParked: _parked,
    e.EffectsRetried: _retried,
    e.EffectsDiscarded: _settled,
    e.TasksDone: _done,
}

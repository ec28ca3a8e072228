"""How many tasks went from which state to which, and how attempts ended, counted record by record.

The events of the busiest road name many tasks at once and are counted by their length; all others
are counted by the moves they tell.
"""

from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from holdfast.core import events as e
from holdfast.core.moves import LEASED, NEW, RUNNING, SUCCEEDED, TELLERS, WAITING
from holdfast.core.record import Record

Way = tuple[str, str]

BY_LENGTH: Final[dict[type[e.Event], tuple[Way, str]]] = {
    e.JobSubmitted: ((NEW, WAITING), "count"),
    e.TasksAdded: ((NEW, WAITING), "items"),
    e.LeasesGranted: ((WAITING, LEASED), "indices"),
    e.AttemptsStarted: ((LEASED, RUNNING), "starts"),
    e.TasksCompleted: ((RUNNING, SUCCEEDED), "commits"),
}
"""Which way all tasks of an event went, and which field says how many they are."""

SLOTS: Final[dict[type[e.Event], tuple[int, Callable[[Any], Any]]]] = {
    kind: (slot, attrgetter(field)) for slot, (kind, (_, field)) in enumerate(BY_LENGTH.items())
}


class Tally:
    """`ends` of attempts are by reason and where their tasks went."""

    def __init__(self) -> None:
        self.ends: Counter[Way] = Counter()
        self._others: Counter[Way] = Counter()
        self._many = [0] * len(BY_LENGTH)

    @property
    def moves(self) -> Counter[Way]:
        """How many tasks went from where to where."""
        found = Counter(self._others)
        for (way, _), count in zip(BY_LENGTH.values(), self._many, strict=True):
            found[way] += count
        return +found

    def note(self, record: Record) -> None:
        for event in record.events:
            quick = SLOTS.get(type(event))
            if quick is not None:
                slot, told = quick
                many = told(event)
                self._many[slot] += many if type(many) is int else len(many)
            elif type(event) in TELLERS:
                self._count(event, record)

    def _count(self, event: e.AnyEvent, record: Record) -> None:
        for move in TELLERS[type(event)](event, record):
            self._others[move.source, move.target] += move.count
            end = move.metadata.get("end")
            if end is not None:
                self.ends[str(end), move.target] += 1

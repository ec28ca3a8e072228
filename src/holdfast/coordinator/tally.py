"""How many tasks went from which state to which, and how attempts ended, counted record by record.

The events of the busiest road name many tasks at once and are counted by their length; all others
are counted by the moves they tell.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from holdfast.core import events as e
from holdfast.core.moves import LEASED, NEW, RUNNING, SUCCEEDED, TELLERS, WAITING
from holdfast.core.record import Record

Way = tuple[str, str]
Quick = tuple[Way, Callable[[Any], int]]

BY_LENGTH: Final[dict[type[e.Event], Quick]] = {
    e.JobSubmitted: ((NEW, WAITING), lambda event: event.count),
    e.TasksAdded: ((NEW, WAITING), lambda event: len(event.items)),
    e.LeasesGranted: ((WAITING, LEASED), lambda event: len(event.indices)),
    e.AttemptsStarted: ((LEASED, RUNNING), lambda event: len(event.starts)),
    e.TasksCompleted: ((RUNNING, SUCCEEDED), lambda event: len(event.commits)),
}


class Tally:
    """`moves` by source and target; `ends` of attempts by reason and where their tasks went."""

    def __init__(self) -> None:
        self.moves: Counter[Way] = Counter()
        self.ends: Counter[Way] = Counter()

    def note(self, record: Record) -> None:
        for event in record.events:
            kind = type(event)
            quick = BY_LENGTH.get(kind)
            if quick is not None:
                self.moves[quick[0]] += quick[1](event)
            elif kind in TELLERS:
                self._count(event, record)

    def _count(self, event: e.AnyEvent, record: Record) -> None:
        for move in TELLERS[type(event)](event, record):
            self.moves[move.source, move.target] += move.count
            end = move.metadata.get("end")
            if end is not None:
                self.ends[str(end), move.target] += 1

"""How long tasks were in each state before they left it.

Events name the positions of what came before: where a task was given out, where its last attempt
ended. So it is enough to remember when the last so many records were written; a task that waited
longer than that is not counted for that state.
"""

from array import array
from collections import Counter
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, get_args

from holdfast.core import events as e
from holdfast.core.histogram import SECONDS, Histogram
from holdfast.core.ids import NEVER, Index, JobId, Position
from holdfast.core.job import birth_of
from holdfast.core.moves import COMMITTED, LEASED, QUARANTINED, RUNNING, WAITING
from holdfast.core.record import Record
from holdfast.core.state import State
from holdfast.core.task import TaskState

FATE: Final = attrgetter("granted", "started_at", "previous")
STATES: Final = (WAITING, LEASED, RUNNING, COMMITTED, QUARANTINED)
MOST_EVENTS: Final = 64
STRIDE: Final = 7
"""Of a record with more events than this every seventh is looked at and counts for seven; odd, as
starts and ends often take turns."""
MOST_BACK: Final = 100_000
KEPT: Final = 1 << 18
"""So many records back it is known when they were written; a power of two."""


class Durations:
    """Fed every record after it was applied."""

    def __init__(self, state: State) -> None:
        self.states = {name: Histogram(SECONDS) for name in STATES}
        self._of_attempts = tuple(self.states[name] for name in (WAITING, LEASED, RUNNING))
        # Tasks that were sent back: since then they wait, and not since their attempt ended.
        self._back: dict[tuple[JobId, Index], Position] = {}
        self._state = state
        self._weight = 1
        self._first = state.position + 1
        self._times = array("q", bytes(8 * KEPT))
        self._telling: dict[type[e.Event], Callable[[Position, int, Any], None]] = {
            **dict.fromkeys(get_args(e.WithEnds), self._aborted),
            e.TasksCompleted: self._completed,
            e.TaskCommitted: self._committed,
            e.TasksDone: self._settled,
            e.TasksRetried: self._sent_back,
        }

    def note(self, position: Position, record: Record) -> None:
        self._times[position % KEPT] = record.at
        events = record.events
        self._weight = 1
        if len(events) > MOST_EVENTS:
            events, self._weight = events[::STRIDE], STRIDE
        for event in events:
            tell = self._telling.get(type(event))
            if tell is not None:
                tell(position, record.at, event)

    def _completed(self, position: Position, at: int, event: e.TasksCompleted) -> None:
        self._ended(position, at, event.job_id, event.commits)

    def _committed(self, position: Position, at: int, event: e.TaskCommitted) -> None:
        self._ended(position, at, event.job_id, (event.commit,))

    def _aborted(self, position: Position, at: int, event: e.WithEnds) -> None:
        self._ended(position, at, event.job_id, event.ends)

    def _ended(self, position: int, at: int, job_id: JobId, fates: Any) -> None:
        """Attempts that are over tell of three states: how long their task had waited, how long
        it was held before it began, how long it ran. Those that were given out and began together
        are counted together, and as born together."""
        # One alone is the most frequent by far, and a counter is dear to make.
        runs = {FATE(fates[0]): 1} if len(fates) == 1 else Counter(map(FATE, fates))
        firsts = {FATE(fate): fate.index for fate in reversed(fates)} if len(runs) > 1 else None
        waiting, leased, running = self._of_attempts
        for run, many in runs.items():
            granted_at, began, since = run
            count = many * self._weight
            granted = self._when(position, granted_at)
            if granted is None:
                continue
            if began == NEVER:
                leased.observe((at - granted) / 1_000, count)
            else:
                # A worker may report a start that came before we knew of our own grant.
                leased.observe(max(0, began - granted) / 1_000, count)
                running.observe(max(0, at - began) / 1_000, count)
            first = fates[0].index if firsts is None else firsts[run]
            waited = self._when(position, self._since(job_id, first, since))
            if waited is not None:
                waiting.observe((granted - waited) / 1_000, count)
        if self._back:
            for fate in fates:
                self._back.pop((job_id, fate.index), None)

    def _since(self, job_id: JobId, index: Index, ended: Position) -> Position:
        """The record from which on a task waited: it was sent back, its last attempt ended, or it
        came to be."""
        if self._back:
            ended = self._back.get((job_id, index), ended)
        job = self._state.jobs.get(job_id)
        return birth_of(job, index) if not ended and job is not None else ended

    def _settled(self, position: int, at: int, event: e.TasksDone) -> None:
        job = self._state.jobs.get(event.job_id)
        if job is None or job.ends is None:
            return
        for index in event.indices:
            since = self._when(position, job.ends[index])
            if since is not None:
                self.states[COMMITTED].observe((at - since) / 1_000, self._weight)

    def _sent_back(self, position: Position, at: int, event: e.TasksRetried) -> None:
        tasks = self._state.job_of(event.job_id).tasks or {}
        for span, former in zip(event.spans, event.former, strict=False):
            for index in map(Index, range(span.first, span.last + 1)):
                since = self._when(position, tasks[index].previous)
                if former == TaskState.QUARANTINED and since is not None:
                    self.states[QUARANTINED].observe((at - since) / 1_000)
                if len(self._back) < MOST_BACK:
                    self._back[event.job_id, index] = position

    def _when(self, now: int, position: int) -> int | None:
        """When a record was written that is not too far back."""
        if not self._first <= position or now - position >= KEPT:
            return None
        return self._times[position % KEPT]


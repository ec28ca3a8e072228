"""The order of jobs, and of what is owed, kept so that a list can be entered anywhere."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from holdfast.core.debts import Debts, Order, Owing
from holdfast.core.ids import JobId
from holdfast.core.job import Job
from holdfast.core.state import State

SPARE: Final = 1_000


class JobLine:
    """The jobs in the order they came, so that a page begins in the middle without a walk.

    It follows the state when somebody looks: what is new is at its end, what was forgotten is
    passed over.
    """

    def __init__(self) -> None:
        self._positions = array("Q")
        self._ids: list[JobId] = []

    def before(self, state: State, position: int | None) -> Iterator[tuple[int, Job]]:
        """The jobs submitted before `position`, newest first."""
        self.follow(state)
        place = len(self._ids)
        if position is not None:
            place = bisect_left(self._positions, position)
        while place > 0:
            place -= 1
            job = state.jobs.get(self._ids[place])
            if job is not None:
                yield self._positions[place], job

    def follow(self, state: State) -> None:
        """Learn of the jobs that came since somebody looked last."""
        if len(self._ids) > 2 * len(state.jobs) + SPARE:
            self._positions, self._ids = array("Q"), []
        last = self._positions[-1] if self._positions else 0
        fresh: list[Job] = []
        for job in reversed(state.jobs.values()):
            if job.position <= last:
                break
            fresh.append(job)
        for job in reversed(fresh):
            self._positions.append(job.position)
            self._ids.append(job.job_id)


class EffectLine:
    """What is owed in the order of its commits. It follows like the line of jobs: a commit is
    always the last, and what was settled is passed over."""

    def __init__(self) -> None:
        self._owings: list[Owing] = []

    def after(self, debts: Debts, order: Order | None) -> Iterator[Owing]:
        """What comes after a place in the order, oldest first."""
        self.follow(debts)
        place = 0
        if order is not None:
            place = bisect_right(self._owings, order, key=_order)
        while place < len(self._owings):
            owing = self._owings[place]
            place += 1
            if debts.find(owing.name) is owing:
                yield owing

    def follow(self, debts: Debts) -> None:
        """Learn of what was committed to since somebody looked last."""
        if len(self._owings) > 2 * len(debts) + SPARE:
            self._owings = []
        last = self._owings[-1].position if self._owings else 0
        fresh: list[Owing] = []
        for owing in reversed(debts):
            if owing.position <= last:
                break
            fresh.append(owing)
        self._owings += sorted(fresh, key=_order)


def _order(owing: Owing) -> Order:
    return owing.order

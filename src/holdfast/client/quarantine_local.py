"""What is in quarantine, of the coordinator in this program."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from msgspec import convert

from holdfast.client.errors import Refused
from holdfast.client.quarantine import QuarantinedTask, QuarantineGroup
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.library import Library
from holdfast.coordinator.quarantine import CaseBook, Cursor, Patient, patients_after
from holdfast.coordinator.quarantine_views import (
    ORDER_MOST,
    Pair,
    case_view,
    groups_of,
    named_patients,
    named_tasks,
    one_of_each,
    picked,
    wanted_by,
    wanted_pairs,
)
from holdfast.core import commands as c
from holdfast.core.command import Command
from holdfast.core.decision import Refused as RefusedDecision
from holdfast.core.ids import Index, JobId
from holdfast.wire.amounts import duration_ms
from holdfast.wire.bodies import ChosenCases
from holdfast.wire.quarantine import WantedCases

Ask = Callable[[Callable[[Coordinator], Any]], Any]

SLICE: Final = 5_000
"""So many tasks are looked at in one turn of the coordinator."""


class LocalQuarantine:
    """That of the coordinator in this program. `ask` runs a question on its thread; its records
    are read on whatever thread."""

    def __init__(self, ask: Ask, library: Library, actor: str) -> None:
        self._ask = ask
        self._library = library
        self._actor = actor
        self._book = CaseBook()

    def all(self, wanted: WantedCases) -> list[QuarantinedTask]:
        views = [case_view(*pair) for pair in self._pairs(wanted)]
        return convert(views, list[QuarantinedTask])

    def groups(self, wanted: WantedCases) -> list[QuarantineGroup]:
        return convert(groups_of(self._pairs(wanted)), list[QuarantineGroup])

    def retry(self, chosen: ChosenCases) -> int:
        return self._settle(chosen, lambda some: c.RetryQuarantined(picked=picked(some)))

    def purge(self, chosen: ChosenCases) -> int:
        def purging(some: list[Patient]) -> Command:
            return c.PurgeQuarantined(picked=picked(some), reason=chosen.reason)

        return self._settle(chosen, purging)

    def force(self, job_id: JobId, index: Index, target: str, reason: str) -> bool:
        command = c.ForceTask(job_id=job_id, index=index, target=target, reason=reason)
        return bool(self._execute(command, reason))

    def _settle(self, chosen: ChosenCases, order: Callable[[list[Patient]], Command]) -> int:
        try:
            older_than_ms = duration_ms(chosen.older_than or None, "older_than")
            wanted = wanted_by(chosen, older_than_ms)
            names = named_tasks(chosen.ids)
        except ValueError as error:
            raise Refused("invalid", str(error)) from None
        if wanted is None:
            patients: list[Patient] = self._ask(lambda k: named_patients(k.state, names))
        else:
            pairs = self._pairs(wanted)
            patients = [one for one, _ in (one_of_each(pairs) if chosen.canary else pairs)]
        count = self._execute(order(patients[:ORDER_MOST]), chosen.reason)
        for first in range(ORDER_MOST, len(patients), ORDER_MOST):
            count += self._execute(order(patients[first : first + ORDER_MOST]), chosen.reason)
        return count

    def _execute(self, command: Command, reason: str) -> int:
        decision = self._ask(lambda k: k.execute(command, actor=self._actor, reason=reason))
        if isinstance(decision, RefusedDecision):
            raise Refused(decision.code, decision.message)
        return int(decision.answer)

    def _pairs(self, wanted: WantedCases) -> list[Pair]:
        """What is wanted, in slices, so that work goes on between them."""
        found: list[Pair] = []
        cursor: Cursor | None = None
        while True:
            patients, cursor, now = self._ask(partial(_look, wanted, cursor))
            cases = self._book.cases(self._library, patients)
            found += wanted_pairs(zip(patients, cases, strict=True), wanted, now)
            if cursor is None:
                return found


def _look(
    wanted: WantedCases, cursor: Cursor | None, k: Coordinator
) -> tuple[list[Patient], Cursor | None, int]:
    newest_first = ((int(job.position), job) for job in reversed(k.state.jobs.values()))
    patients, cursor = patients_after(newest_first, wanted, cursor, SLICE)
    return patients, cursor, k.clock.wall()

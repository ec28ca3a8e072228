"""Schedules of the coordinator in this program."""

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.client.backend import View
from holdfast.client.errors import Refused
from holdfast.coordinator import schedules as desk
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.schedules import Mistimed, schedule_detail, schedule_view
from holdfast.coordinator.views import rfc3339
from holdfast.core import commands_schedules as s
from holdfast.core.command import Command
from holdfast.core.decide.schedules import no_schedule
from holdfast.core.decision import Refused as RefusedDecision
from holdfast.core.ids import Instant
from holdfast.core.schedule import Definition, Schedule
from holdfast.core.spec import JobSpec

T = TypeVar("T")
Ask = Callable[[Callable[[Coordinator], Any]], Any]


class LocalSchedules:
    """Those of the coordinator in this program. `ask` runs a question on its thread."""

    def __init__(self, ask: Ask, actor: str, check_fits: Callable[[JobSpec], None]) -> None:
        self._ask = ask
        self._actor = actor
        self._check_fits = check_fits

    def set(self, name: str, definition: Definition, *, start: int, replace: bool) -> None:
        self._check_fits(definition.spec)
        self._execute(
            lambda k: desk.setting(
                k.state, k.clock.wall(), name, definition, start=Instant(start), replace=replace
            )
        )

    def show(self, name: str) -> View:
        return self._look(
            name, lambda k, known: schedule_detail(k.state, known, _wall_of(k), k.clock.wall())
        )

    def known(self) -> list[View]:
        def look(k: Coordinator) -> list[View]:
            known = sorted(k.state.schedules.items())
            return [
                schedule_view(k.state, schedule, _wall_of(k), k.clock.wall())
                for _, schedule in known
            ]

        found: list[View] = self._ask(look)
        return found

    def coming(self, name: str, count: int) -> list[str]:
        return self._look(
            name,
            lambda k, known: [rfc3339(at) for at in desk.coming(known, k.clock.wall(), count)],
        )

    def pause(self, name: str, reason: str) -> None:
        self._execute(lambda _: s.PauseSchedule(name=name, reason=reason))

    def resume(self, name: str) -> None:
        self._execute(lambda k: desk.resuming(k.state, k.clock.wall(), name))

    def run(self, name: str) -> str:
        return str(self._execute(lambda k: desk.running(k.clock.wall(), name)))

    def backfill(self, name: str, first: int, last: int) -> list[str]:
        def make(k: Coordinator) -> Command:
            wall = k.clock.wall()
            until = Instant(last or wall)
            return desk.backfilling(k.state, wall, name, Instant(first), until)

        return list(self._execute(make))

    def delete(self, name: str) -> None:
        self._execute(lambda _: s.RemoveSchedule(name=name))

    def _execute(self, make: Callable[[Coordinator], Command]) -> Any:
        def ask(k: Coordinator) -> Any:
            return k.execute(make(k), actor=self._actor)

        try:
            decision = self._ask(ask)
        except Mistimed as error:
            raise Refused("invalid", str(error)) from None
        if isinstance(decision, RefusedDecision):
            raise Refused(decision.code, decision.message)
        return decision.answer

    def _look(self, name: str, view: Callable[[Coordinator, Schedule], T]) -> T:
        def look(k: Coordinator) -> T | RefusedDecision:
            known = k.state.schedules.get(name)
            return no_schedule(name) if known is None else view(k, known)

        found = self._ask(look)
        if isinstance(found, RefusedDecision):
            raise Refused(found.code, found.message)
        told: T = found
        return told


def _wall_of(k: Coordinator) -> Callable[[int], int]:
    offset_ms = k.clock.wall() - k.clock.now()
    return lambda instant: instant + offset_ms

"""What hangs, of the coordinator in this program."""

from collections.abc import Callable
from typing import Any

from msgspec import convert

from holdfast.client.stalls import Approved, StallFound
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.stall_views import stall_view
from holdfast.coordinator.stalls import Stalls
from holdfast.coordinator.views import View
from holdfast.wire.bodies import ChosenStalls


class LocalStalls:
    """Those of the coordinator in this program. `ask` runs a question on its thread."""

    def __init__(
        self, ask: Callable[[Callable[[Coordinator], Any]], Any], stalls: Stalls, actor: str
    ) -> None:
        self._ask = ask
        self._stalls = stalls
        self._actor = actor

    def all(self) -> list[StallFound]:
        def look(k: Coordinator) -> list[View]:
            offset_ms, now = k.clock.wall() - k.clock.now(), k.now()
            found = self._stalls.current()
            return [stall_view(stall, now, lambda at: at + offset_ms) for stall in found]

        return convert(self._ask(look), list[StallFound])

    def approve(self, chosen: ChosenStalls) -> list[Approved]:
        def ask(_: Coordinator) -> list[Approved]:
            names = chosen.ids or [s.id for s in self._stalls.current() if s.lease_id]
            done = self._stalls.approve(names, actor=self._actor, reason=chosen.reason)
            return [Approved(each.id, each.outcome, each.command) for each in done]

        found: list[Approved] = self._ask(ask)
        return found

"""What commits owe, of the coordinator in this program."""

from collections.abc import Callable
from typing import Any

from msgspec import convert

from holdfast.client.effects import OwedEffect
from holdfast.client.errors import Refused
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.effects import Unclear, chosen_by, chosen_views
from holdfast.coordinator.exchanges import Exchanges
from holdfast.coordinator.views import View
from holdfast.core import commands as c
from holdfast.core.command import Command
from holdfast.core.decision import Refused as RefusedDecision
from holdfast.wire.bodies import ChosenEffects
from holdfast.wire.wanted import WantedEffects


class LocalEffects:
    """Those of the coordinator in this program. `ask` runs a question on its thread."""

    def __init__(
        self, ask: Callable[[Callable[[Coordinator], Any]], Any], exchanges: Exchanges, actor: str
    ) -> None:
        self._ask = ask
        self._exchanges = exchanges
        self._actor = actor

    def all(self, wanted: WantedEffects) -> list[OwedEffect]:
        def look(k: Coordinator) -> list[View]:
            offset_ms = k.clock.wall() - k.clock.now()
            ordered = sorted(k.state.debts, key=lambda owing: owing.order)
            stands = self._exchanges.deliveries.standings()
            return list(chosen_views(ordered, wanted, stands, lambda at: at + offset_ms))

        return convert(self._ask(look), list[OwedEffect])

    def retry(self, chosen: ChosenEffects) -> int:
        return self._settle(chosen, retries=True)

    def discard(self, chosen: ChosenEffects) -> int:
        return self._settle(chosen, retries=False)

    def _settle(self, chosen: ChosenEffects, *, retries: bool) -> int:
        left = 1

        def ask(k: Coordinator) -> Any:
            nonlocal left
            found = chosen_by(k.state.debts, chosen, retries=retries)
            left = found.left
            command: Command = c.RetryEffects(names=found.names)
            if not retries:
                command = c.DiscardEffects(names=found.names, reason=chosen.reason)
            return k.execute(command, actor=self._actor, reason=chosen.reason)

        count = 0
        while left:
            try:
                decision = self._ask(ask)
            except Unclear as error:
                raise Refused("invalid", str(error)) from None
            if isinstance(decision, RefusedDecision):
                raise Refused(decision.code, decision.message)
            count += decision.answer
        return count

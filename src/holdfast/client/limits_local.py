"""Limits of an open folder."""

from collections.abc import Callable
from typing import Any

from msgspec import convert

from holdfast.client.limits import Limit
from holdfast.coordinator.limits import limit_view
from holdfast.coordinator.views import View
from holdfast.core import commands as c
from holdfast.core.state import State
from holdfast.wire.bodies import NewLimit
from holdfast.wire.limits import changes_of


class LocalLimits:
    """`look` shows the state, `execute` asks the coordinator."""

    def __init__(
        self,
        look: Callable[[Callable[[State], Any]], Any],
        execute: Callable[[c.Command], Any],
    ) -> None:
        self._look = look
        self._execute = execute

    def all(self) -> list[Limit]:
        def look(state: State) -> list[View]:
            return [limit_view(name, limit) for name, limit in sorted(state.limits.items())]

        return convert(self._look(look), list[Limit])

    def set(self, scope: str, name: str, body: NewLimit) -> None:
        self._execute(c.SetLimit(scope=scope, name=name, **changes_of(body)))

    def clear(self, scope: str, name: str) -> bool:
        return bool(self._execute(c.ClearLimit(scope=scope, name=name)))

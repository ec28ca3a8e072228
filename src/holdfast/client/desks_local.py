"""Whom a program asks about what its own coordinator has: bounds, debts, stalls, reasons."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from holdfast.client.audit_local import LocalAudit
from holdfast.client.effects_local import LocalEffects
from holdfast.client.errors import Refused
from holdfast.client.explained_local import LocalReasons
from holdfast.client.limits_local import LocalLimits
from holdfast.client.operations_local import LocalOperations
from holdfast.client.quarantine_local import LocalQuarantine
from holdfast.client.runtimes import KeptRuntimes
from holdfast.client.stalls_local import LocalStalls
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.embedding import Embedded
from holdfast.core import commands as c
from holdfast.core.state import State

T = TypeVar("T")


class LocalDesks(ABC):
    """Part of an open folder: everybody who is asked on the coordinator's thread."""

    _embedded: Embedded
    actor: str

    @abstractmethod
    def call(self, ask: Callable[[Coordinator], T]) -> T: ...

    @abstractmethod
    def execute(self, command: c.Command) -> Any: ...

    @property
    def limits(self) -> LocalLimits:
        return LocalLimits(self._look, self.execute)

    @property
    def effects(self) -> LocalEffects:
        return LocalEffects(self.call, self._embedded.exchanges, self.actor)

    @property
    def operations(self) -> LocalOperations:
        return LocalOperations(self.call, self._embedded, self.actor)

    @property
    def stalls(self) -> LocalStalls:
        return LocalStalls(self.call, self._embedded.stalls, self.actor)

    @cached_property
    def quarantine(self) -> LocalQuarantine:
        return LocalQuarantine(self.call, self._embedded.library(), self.actor)

    @property
    def audit(self) -> LocalAudit:
        return LocalAudit(self.call, self._embedded)

    @property
    def reasons(self) -> LocalReasons:
        return LocalReasons(self._embedded, self.call)

    @property
    def runtimes(self) -> KeptRuntimes:
        """A program keeps nothing up once it is left, so runtimes are a server's."""
        raise Refused(
            "invalid", "runtimes are kept up by a server: `holdfast serve`, then holdfast.connect()"
        )

    def _look(self, question: Callable[[State], T]) -> T:
        return self.call(lambda coordinator: question(coordinator.state))

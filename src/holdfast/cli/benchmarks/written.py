"""A real log written without threads: the coordinator decides, each batch is one synced frame."""

from pathlib import Path
from typing import Any

from holdfast.coordinator.embedding import Embedded, open_embedded
from holdfast.coordinator.settings import Settings
from holdfast.core import commands as c
from holdfast.core.decision import Refused
from holdfast.core.errors import BrokenInvariant
from holdfast.core.state import State


class Written:
    """A folder taken over by this process, written by hand. Close it to let it go."""

    def __init__(self, folder: Path) -> None:
        self._embedded: Embedded = open_embedded(folder, Settings())
        self.log = self._embedded.log

    @property
    def state(self) -> State:
        return self._embedded.coordinator.state

    def execute(self, command: c.Command) -> Any:
        decision = self._embedded.coordinator.execute(command, actor="bench")
        if isinstance(decision, Refused):
            raise BrokenInvariant(decision.message)
        return decision.answer

    def write(self) -> None:
        """Everything since the last frame becomes one, on disk."""
        coordinator = self._embedded.coordinator
        batch = coordinator.take_batch()
        if batch is not None:
            self.log.append(batch.records, at=batch.at, wall=batch.wall)
            self.log.sync()
            coordinator.became_durable(batch.last)

    def close(self) -> None:
        self.log.close()

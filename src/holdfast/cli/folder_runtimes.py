"""The class runtimes of a folder, as it stood at a moment."""

from collections.abc import Mapping

from holdfast.cli.output import View
from holdfast.coordinator.inspect import Reading
from holdfast.coordinator.runtime_history import life_of
from holdfast.coordinator.runtimes import copies, runtime_view
from holdfast.runtimes.resource import KIND


class FolderRuntimes:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def all(self, labels: Mapping[str, str]) -> list[View]:
        found = copies(self._reading.state, labels=tuple(labels.items()))
        return [runtime_view(kept, self._reading.wall) for kept in found]

    def one(self, name: str) -> View | None:
        kept = self._reading.state.resources.get((KIND, name))
        return None if kept is None else runtime_view(kept, self._reading.wall)

    def events(self, name: str) -> list[View]:
        reading = self._reading
        return life_of(name, reading.records(reading.folder.oldest, reading.state.position))

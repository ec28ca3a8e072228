"""The class runtimes of a folder, as it stood at a moment."""

from collections.abc import Mapping

from holdfast.cli.output import View
from holdfast.coordinator.inspect import Reading
from holdfast.coordinator.runtime_history import about_runtimes, lives_in
from holdfast.coordinator.runtimes import copies, happening_view, runtime_view
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
        folder, last = self._reading.folder, self._reading.state.position
        frames = folder.reader.read(folder.oldest) if last >= folder.oldest else ()
        found = lives_in(about_runtimes(frames, folder.oldest, last)).of(name)
        return [happening_view(each, int) for each in found]

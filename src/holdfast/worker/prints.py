"""Which bytes of a lane's output belong to which of its tasks, as its parent sees it.

The tasks of a lane print into the same two files, one after another. What a child does not live to
tell is seen from the slate: where the output of the task began that it died in.
"""

from collections.abc import Callable, Iterable

from holdfast.core.ids import LeaseId
from holdfast.worker.captures import STREAMS, CaptureFile
from holdfast.worker.lanes import Entry
from holdfast.worker.outbox import Outlet, Shown
from holdfast.worker.printing import Ends
from holdfast.worker.slate import NO_LEASE, Slate


class LanePrints:
    """Of one lane. Used by the keeper's thread, but for `shown`."""

    def __init__(self, files: tuple[CaptureFile, CaptureFile], outlet: Outlet) -> None:
        self.files = files
        self._outlet = outlet
        self._at: Ends = (0, 0)

    @property
    def descriptors(self) -> tuple[int, int]:
        return self.files[0].descriptor, self.files[1].descriptor

    def told(self, entry: Entry, ends: Ends) -> None:
        """A task is over, and has printed up to here."""
        for stream, file, start, end in zip(STREAMS, self.files, self._at, ends, strict=True):
            self._outlet.printed(entry, stream, file, start, max(start, end))
        self._at = ends

    def died(self, entry: Entry | None) -> None:
        """The child is dead; the task it was in, if any, has printed all that is there."""
        ends = (self.files[0].size(), self.files[1].size())
        if entry is not None and ends != self._at:
            self.told(entry, ends)
        self._at = ends

    def shown(self, slate: Slate, entry_of: Callable[[LeaseId], Entry | None]) -> Iterable[Shown]:
        """What the task that runs now has printed so far. May be called from any thread."""
        named = slate.shown()
        if named[0] == NO_LEASE:
            return
        ends = (self.files[0].size(), self.files[1].size())
        entry = entry_of(LeaseId(named[0]))
        # Still in the same task: whatever is there is its own.
        if entry is None or slate.shown() != named:
            return
        for stream, file, start, end in zip(STREAMS, self.files, named[1:], ends, strict=True):
            if end > start:
                yield Shown(entry, stream, file, start, end)

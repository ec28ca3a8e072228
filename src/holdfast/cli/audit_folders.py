"""The audit trail of a folder, read without owning it."""

from collections.abc import Iterator
from pathlib import Path

from holdfast.cli.errors import REFUSED, Trouble
from holdfast.cli.output import View, typed
from holdfast.coordinator.audit import Page, page_of
from holdfast.coordinator.auditfile import Span, exported, span_of
from holdfast.coordinator.inspect import Folder, HistoryGone, Moment, look_at, undisturbed
from holdfast.coordinator.refusals import refusals_in
from holdfast.wire.wanted_entries import WantedEntries


class FolderAudit:
    def __init__(self, path: Path, at: Moment | None = None) -> None:
        self._path = path
        self._at = at

    def entries(self, wanted: WantedEntries, limit: int) -> list[View]:
        def look() -> Page:
            folder, last = look_at(self._path, self._at)
            noted = [each for each in refusals_in(self._path) if self._is_past(each.position, last)]
            return page_of(folder.records, folder.oldest, last + 1, noted, wanted, limit=limit)

        found = undisturbed(look).entries
        return found[-limit:] if limit else found

    def _is_past(self, position: int, last: int) -> bool:
        return self._at is None or position <= last

    def head(self) -> View:
        def look() -> View:
            folder, last = look_at(self._path, self._at)
            position = _ending(folder, last)
            head = folder.reader.chain_after(position)
            told = "" if head is None else head.hex()
            return {"log_id": folder.log_id, "position": position, "head": told}

        return undisturbed(look)

    def export(self, first: int, last: int) -> Iterator[bytes]:
        folder, end = look_at(self._path, self._at)
        start, until = first or folder.oldest, min(last or end, end)
        if start < folder.oldest:
            raise Trouble(
                f"history before position {folder.oldest} is no longer kept in {self._path}. "
                f"`holdfast audit export --data {typed(self._path)} --from {folder.oldest}` has "
                "what there is.",
                REFUSED,
            )
        try:
            yield from exported(span_of(folder.reader, start, until), folder.records(start, until))
        except (HistoryGone, FileNotFoundError):
            raise Trouble(
                "old history was dropped while it was exported: begin again.", REFUSED
            ) from None


def _ending(folder: Folder, last: int) -> int:
    """The last position up to there at which the chain has a head: the end of a frame."""
    if folder.last < folder.oldest or last < folder.oldest:
        return last
    frame, _ = folder.reader.record(last)
    return last if frame.last == last else frame.first - 1


def again(folder: Folder, span: Span) -> Iterator[bytes]:
    """The file as it would be written from this log now, for the same positions."""
    records = folder.records(span.first, span.last)
    return exported(span_of(folder.reader, span.first, span.last), records)

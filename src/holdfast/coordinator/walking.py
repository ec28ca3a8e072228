"""Telling a log again from some state on, with every eye open: a watch judges each record, and each
snapshot that is passed is compared with what replay says."""

from collections.abc import Iterable
from typing import Final

from holdfast.coordinator.decoding import Framed, decode_at
from holdfast.coordinator.inspect import thawed
from holdfast.core.apply import apply
from holdfast.core.errors import BrokenInvariant
from holdfast.core.freeze import fingerprint
from holdfast.core.ids import Position
from holdfast.core.record import Record, decode_record
from holdfast.core.state import State
from holdfast.core.violation import Violation
from holdfast.core.watch_start import touched, watch_from
from holdfast.wal import Frame, Snapshot

WATCHED_MOST: Final = 200_000
"""A watch remembers tasks one by one: from a state with more than this nothing is watched."""


def in_words(violation: Violation) -> str:
    """A violation in one line."""
    return f"{violation.name} {violation.subject}: {violation.text}"


class Walk:
    """`violations` is what was found on the way, `liars` the snapshots that claim another state.
    History was watched from `since` on; -1 where it was not. `log` can tell who wrote a record that
    cannot be read."""

    def __init__(
        self, state: State, snapshots: Iterable[Snapshot], log: Framed | None = None
    ) -> None:
        self._log = log
        self.state = state
        self.violations: list[str] = []
        self.liars: list[Snapshot] = []
        self._claims = {snapshot.position: snapshot for snapshot in snapshots}
        self._watch = watch_from(state) if touched(state) <= WATCHED_MOST else None
        self.since = -1 if self._watch is None else int(state.position)

    def follow(self, frame: Frame, until: int) -> bool:
        """Tell one frame, as far as `until`; whether there is more to come."""
        state, watch = self.state, self._watch
        for position, data in enumerate(frame.records, frame.first):
            if position > until:
                return False
            if position > state.position:
                record = self._decoded(data, position)
                if watch is not None:
                    self.violations += map(in_words, watch.feed(Position(position), record))
                apply(state, record, Position(position))
        claim = self._claims.get(frame.last)
        if claim is not None and _claims_another(claim, state):
            self.liars.append(claim)
        return frame.last < until

    def _decoded(self, data: bytes, position: int) -> Record:
        return decode_record(data) if self._log is None else decode_at(self._log, data, position)


def _claims_another(claim: Snapshot, state: State) -> bool:
    """Whether a snapshot holds another state than the log tells at its position. Both are looked
    at by the eyes of this release, whoever wrote them."""
    try:
        return fingerprint(thawed(claim)) != fingerprint(state)
    except BrokenInvariant:
        return True

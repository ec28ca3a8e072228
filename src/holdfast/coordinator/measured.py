"""What is counted and measured of every record, for whoever draws curves."""

from holdfast.coordinator.durations import Durations
from holdfast.coordinator.tally import Tally
from holdfast.core.ids import Position
from holdfast.core.record import Record
from holdfast.core.state import State


class Measured:
    """Fed every record after it was applied."""

    def __init__(self, state: State) -> None:
        self.tally = Tally()
        self.durations = Durations(state)

    def note(self, position: Position, record: Record) -> None:
        self.tally.note(record)
        self.durations.note(position, record)

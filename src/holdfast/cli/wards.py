"""Where commands that look at the quarantine get what they show: one shape for all."""

from typing import Protocol

from holdfast.cli.output import View
from holdfast.wire.quarantine import WantedCases


class Ward(Protocol):
    """The tasks in quarantine."""

    def cases(self, wanted: WantedCases, limit: int = 0) -> tuple[list[View], int | None]:
        """Some of them, those of the newest jobs first, and how many there are where that is
        known. `limit` zero is none."""
        ...

    def groups(self, wanted: WantedCases) -> list[View]:
        """The same failures counted together, the largest group first."""
        ...

    def counts(self, wanted: WantedCases) -> View:
        """How many there are, by everything people ask for."""
        ...

    def case(self, job_id: str, index: int) -> View | None:
        """One of them with its attempts; None where it is not in quarantine."""
        ...

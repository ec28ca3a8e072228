"""Which jobs, or which of what is owed, a list is about: for whoever asks a server and for whoever
looks through them."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from holdfast.core.debts import Owing
from holdfast.core.job import Job, job_state
from holdfast.core.owed import OWED_STATES, PARKED

OWED: Final = "OWED"
"""Not a state but all of them: whatever is not settled."""
EFFECT_STATES: Final = (OWED, *OWED_STATES)
"""What a list of what is owed can be narrowed to."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What is empty is not looked at. `name` is a pattern of * and ?; every label must be there."""

    states: frozenset[str] = frozenset()
    name: str = ""
    namespace: str = ""
    queue: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    def takes(self, job: Job) -> bool:
        spec = job.spec
        if self.namespace and spec.namespace != self.namespace:
            return False
        if self.queue and spec.queue != self.queue:
            return False
        if self.name and not fnmatchcase(spec.name, self.name):
            return False
        if self.labels and not frozenset(self.labels) <= frozenset(spec.labels):
            return False
        # The state is computed, so it is asked for last.
        return not self.states or job_state(job).value in self.states


class WantedEffects(Struct, frozen=True, kw_only=True):
    """What is empty is not looked at. `sink` is the name of a sink, or of the file system that a
    staged file lies on. How an entry stands is told by others: `states` is looked at by them."""

    states: frozenset[str] = frozenset()
    sink: str = ""
    job: str = ""
    kind: str = ""

    def takes(self, owing: Owing) -> bool:
        debt = owing.debt
        if self.states and not debt.parked and self.states == frozenset({PARKED}):
            return False
        if self.job and owing.name.job_id != self.job:
            return False
        if self.sink and debt.place != self.sink:
            return False
        return not self.kind or debt.kind == self.kind


def effect_states(names: Iterable[str]) -> frozenset[str]:
    """What a list is narrowed to by these words; `OWED` leaves nothing out."""
    chosen = frozenset(names)
    return frozenset() if OWED in chosen else chosen

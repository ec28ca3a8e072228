"""What a watch believes, in plain values of its own, and the moves it knows."""

from typing import Final

from msgspec import Struct

from holdfast.core import events as e
from holdfast.core.circuit import circuit_of
from holdfast.core.ids import NEVER
from holdfast.core.spec import JobSpec

WAITING, LEASED, RUNNING, COMMITTED = "WAITING", "LEASED", "RUNNING", "COMMITTED"
SUCCEEDED, QUARANTINED, KILLED, UNSCHEDULABLE = (
    "SUCCEEDED", "QUARANTINED", "KILLED", "UNSCHEDULABLE",
)  # fmt: skip

MOVES: Final[dict[type[e.Event], tuple[tuple[str, ...], str]]] = {
    e.LeasesGranted: ((WAITING,), LEASED),
    e.AttemptsStarted: ((LEASED,), RUNNING),
    e.TasksCompleted: ((RUNNING,), SUCCEEDED),
    e.TaskCommitted: ((RUNNING,), COMMITTED),
    e.EffectsDelivered: ((COMMITTED,), COMMITTED),
    e.DeliveryFailed: ((COMMITTED,), COMMITTED),
    e.EffectsParked: ((COMMITTED,), COMMITTED),
    e.EffectsRetried: ((COMMITTED,), COMMITTED),
    e.EffectsDiscarded: ((COMMITTED,), COMMITTED),
    e.TasksDone: ((COMMITTED,), SUCCEEDED),
    e.AttemptsReturned: ((LEASED, RUNNING), WAITING),
    e.TasksQuarantined: ((LEASED, RUNNING), QUARANTINED),
    e.TasksKilled: ((WAITING, LEASED, RUNNING), KILLED),
    e.TasksUnschedulable: ((WAITING,), UNSCHEDULABLE),
    e.TasksSetAside: ((WAITING, LEASED, RUNNING), QUARANTINED),
    e.TaskRescheduled: ((WAITING,), WAITING),
    e.TaskDue: ((WAITING,), WAITING),
    e.TasksPurged: ((QUARANTINED, UNSCHEDULABLE), KILLED),
    e.TasksRestored: ((KILLED,), WAITING),
    e.TasksRetried: ((QUARANTINED, KILLED, UNSCHEDULABLE), WAITING),
}
"""Every way a task may go, written down a second time. A test compares it with the table."""


class SeenDebt(Struct):
    """What the watch believes of one entry: how many tries have failed, and who may move it."""

    tries: int = 0
    parked: bool = False
    is_block: bool = False


class Seen(Struct):
    """What the watch believes of one task."""

    state: str = WAITING
    attempt: int = 0
    lease_id: int = 0
    holder: tuple[str, int] = ("", 0)
    expires_at: int = NEVER
    started: bool = False
    failures: int = 0
    losses: int = 0
    owed: dict[int, SeenDebt] = {}
    by_person: bool = False
    whole_at: int = NEVER


class SeenJob(Struct):
    """What the watch believes of one job. Tasks that nothing ever touched are only counted."""

    count: int
    sealed: bool
    tasks: dict[int, Seen]
    retries: int = 0
    max_losses: int = 0
    generation: int = 1
    is_blocked: bool = False
    is_gang: bool = False
    circuit: str = ""
    retry_budget: tuple[int, int] = (0, 0)
    retry_dues: list[int] = []
    service: tuple[int, int] = (0, 0)

    def agree_to(self, spec: JobSpec) -> None:
        """Take over the terms that may change when a finished job is sent back."""
        self.retries, self.max_losses = spec.retries, spec.max_losses
        self.retry_budget = (spec.retry_budget.retries, spec.retry_budget.per_ms)
        self.circuit = circuit_of(spec)

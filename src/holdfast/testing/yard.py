"""A calm cluster: a real coordinator, the agents of some workers, and time that passes as told.

No message is lost and nobody fails who was not told to, so that a test can say what must happen
and when. The log says what did.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.coordinator.settings import Settings
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision
from holdfast.core.ids import Instant, JobId
from holdfast.core.job import JobState, job_state
from holdfast.core.state import State
from holdfast.testing.cluster import Cluster
from holdfast.testing.floor import a_spec
from holdfast.testing.member import Member

TAKES_MS: Final = 1_000
ARRIVE_MS: Final = 1_000


class Hand(Struct, frozen=True):
    """A worker to be hired. `failing` is the share of its attempts that raise."""

    slots: int = 1
    failing: float = 0.0
    attributes: tuple[tuple[str, str], ...] = ()


class Grant(Struct, frozen=True):
    """A task that was leased, as the log tells it."""

    at: Instant
    job_id: JobId
    index: int
    worker: str


class Yard(Cluster):
    """Workers w0, w1 and so on. Every attempt takes `takes_ms`. The power fails once, as frame
    `crash_at` is written: it is lost, or it survives although nobody was told. `crashes` says how
    often that was."""

    wild_ms = 0

    def __init__(
        self,
        hands: Sequence[Hand],
        *,
        takes_ms: int = TAKES_MS,
        settings: Settings | None = None,
        crash_at: int = 0,
        frame_survives: bool = False,
    ) -> None:
        self.crashes = 0
        self._hands = hands
        self._takes_ms = takes_ms
        self._frames_left = crash_at
        self._frame_survives = frame_survives
        super().__init__(1, workers=len(hands), jobs=0)
        self._is_wild = False
        if settings is not None:
            self.service.exchanges.adjust(settings)
        # Everybody is there before anything is asked for.
        self.run_for(ARRIVE_MS)

    def hire(self, name: str, incarnation: int, slots: int) -> Member:
        hand = self._hands[int(name.removeprefix("w"))]
        return Member(
            self, name, incarnation, hand.slots, attributes=hand.attributes, failing=hand.failing,
            takes_ms=self._takes_ms,
        )  # fmt: skip

    @property
    def state(self) -> State:
        return self.service.coordinator.state

    def do(self, command: c.Command) -> Decision:
        decision = self.service.do(command)
        self.run_for(0)
        return decision

    def named(self, name: str) -> JobId | None:
        """The job of this name, where it is there."""
        jobs = self.state.jobs.items()
        return next((job_id for job_id, job in jobs if job.spec.name == name), None)

    def submit(self, count: int = 1, *, ties: dict[str, Any] | None = None, **wants: Any) -> JobId:
        items = tuple(str(number).encode() for number in range(count))
        decision = self.do(c.SubmitJob(spec=a_spec(**wants), items=items, **(ties or {})))
        if not isinstance(decision, Accepted):
            raise AssertionError(f"it was refused: {decision}")
        return JobId(str(decision.answer))

    def run_for(self, ms: int) -> None:
        """Let so much time pass, event by event."""
        end = self.clock.now() + ms
        self.at(end, _arrive)
        self.pass_until(end)
        if self.service.troubles or self.troubles:
            raise AssertionError(f"{self.service.troubles} {self.troubles}")

    def _sync(self, epoch: int) -> None:
        if epoch == self.epoch and self.service.writing:
            self._frames_left -= 1
            if self._frames_left == 0:
                self.crashes += 1
                self.service.crash(frame_survives=self._frame_survives, by_snapshot=True)
        super()._sync(epoch)

    # --- what came of it ------------------------------------------------------------------------

    def state_of(self, job_id: JobId) -> JobState:
        return job_state(self.state.jobs[job_id])

    def events(self) -> Iterator[tuple[Instant, e.AnyEvent]]:
        self.service.settle()
        for record in self.service.records():
            for event in record.events:
                yield record.at, event

    def grants(self, *jobs: JobId) -> list[Grant]:
        """In the order of the log; of all jobs, or of these."""
        return [
            Grant(at, event.job_id, index, event.worker)
            for at, event in self.events()
            if isinstance(event, e.LeasesGranted) and (not jobs or event.job_id in jobs)
            for index in event.indices
        ]


def _arrive() -> None:
    """The time that was waited for has come."""

"""What the agent asks of whatever runs user code: threads here, warm children there.

An executor owns lanes, one a slot. A lane runs its tasks one after another in the order they were
given; an idle lane may take unstarted tasks of the same job from a longer one. The agent calls
every method from one thread; the executor's own threads meet it only in `harvest`.
"""

from typing import Protocol

from msgspec import Struct

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.wire.exchange import Done, Failed, Lingering, Progress, Released, Run


class Running(Struct, frozen=True, gc=False):
    """An attempt under way: since when (monotonic milliseconds), how long it may take, when it
    told of progress last, or began, and how long it may be silent."""

    job_id: JobId
    index: Index
    lease_id: LeaseId
    since_ms: int
    timeout_ms: int
    told_ms: int = 0
    stall_ms: int = 0

    def due_ms(self) -> int:
        """When it will have taken too long, unless it ends or speaks; zero for never."""
        dues = []
        if self.timeout_ms:
            dues.append(self.since_ms + self.timeout_ms)
        if self.stall_ms:
            dues.append(self.told_ms + self.stall_ms)
        return min(dues, default=0)

    def trouble_at(self, now_ms: int) -> str:
        """What it has failed by, if its time is up."""
        if self.timeout_ms and now_ms - self.since_ms >= self.timeout_ms:
            return f"it took longer than its timeout of {self.timeout_ms / 1_000:g} s"
        if self.stall_ms and now_ms - self.told_ms >= self.stall_ms:
            return f"it stalled: it told no progress for {self.stall_ms / 1_000:g} s"
        return ""


class Left(Struct, frozen=True, array_like=True, gc=False):
    """What an attempt did after its early commit is over: in good order, or by this error."""

    lease_id: LeaseId
    error: str = ""


class Harvest(Struct, frozen=True):
    """What has ended since the last harvest. Each attempt appears in exactly one of the first
    three lists, once.

    One that commits early appears in `early` instead; it goes on, waits for an `answer`, and when
    what it does after its commit is over, or it has died, appears in `left`. `progress` is what
    attempts have said of themselves.
    """

    done: list[Done]
    failed: list[Failed]
    released: list[Released]
    early: list[Done] = []
    left: list[Left] = []
    progress: list[Progress] = []


def merge(whole: Harvest, part: Harvest) -> None:
    """Add one harvest to another."""
    whole.done.extend(part.done)
    whole.failed.extend(part.failed)
    whole.released.extend(part.released)
    whole.early.extend(part.early)
    whole.left.extend(part.left)
    whole.progress.extend(part.progress)


class Executor(Protocol):
    """`fatal` is set once nothing can run here at all (and why); `fatal_kind` names the error."""

    slots: int

    @property
    def fatal(self) -> str | None: ...

    @property
    def fatal_kind(self) -> str | None: ...

    def start(self) -> None:
        """Bring the lanes up. Nothing is spawned before it is needed."""

    def assign(self, run: Run) -> None:
        """Queue the items of `run` behind what lane `run.slot` already holds."""

    def harvest(self) -> Harvest:
        """Take everything that ended since the last call, without waiting."""

    def running(self) -> list[Running]:
        """The attempts under way now: at most one a lane, without those given up and those that
        have asked for their commit."""

    def recall(self, lease_ids: frozenset[LeaseId]) -> None:
        """Take back those that have not started; they appear as `Released(started=False)`."""

    def stop(self, lease_id: LeaseId, grace_ms: int | None = None) -> None:
        """End an attempt whose outcome nobody wants any more: nothing is reported for it.

        Unstarted: dropped. Running in a process: killed. Running in a thread: given up; its slot
        stays occupied until the function returns, and what it returns is thrown away. A process
        gets `grace_ms` to end by itself, or the grace its executor gives.
        """

    def cut_off(self, lease_id: LeaseId, grace_ms: int) -> None:
        """End an attempt that is still wanted, for certain within the grace. It appears in a
        harvest once it has ended and not before: as `Released`, or as what it came to."""

    def drain(self) -> None:
        """Nothing more will come. What runs may end in its own time, and those that cannot be
        ended are told that they had better."""

    def answer(self, lease_id: LeaseId, why: str) -> None:
        """What came of an early commit: it stands, and the attempt does what comes after it; or it
        was not accepted, and `why`."""

    def hold_until(self, ends_ms: int, kill_ms: int) -> None:
        """How long attempts that must not outlive their leases may go on, by the clock of the
        agent: asked to end then, killed by then. An executor that can see to it while the agent is
        frozen does; the others leave it to `stop`."""

    def lingering(self) -> tuple[Lingering, ...]:
        """The attempts that were given up, or have asked for their commit, and may still run, with
        the lanes they run in. Each is told until a harvest has taken in its end."""

    def close(self, grace_ms: int) -> Harvest:
        """Stop starting, wait up to `grace_ms` for what runs, then end it.

        The harvest holds what ended in time and a `Released` for everything that did not.
        """

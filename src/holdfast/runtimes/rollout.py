"""How replicas of one revision make room for those of the next, one round at a time.

A round says how many replicas of the wanted revision to start and which ones to stop. It keeps two
promises whatever it is told: it stops nothing that would leave fewer ready replicas than were
asked for less `unavailable`, and it starts nothing that would make them more than were asked for
and `surge`. So a revision that never gets ready stops the rollout with the old ones up. With
`steps` the wanted revision takes over share by share, each held for `pause` before the next.

What a rollout remembers between rounds is its progress, which people see as well.
"""

from collections import Counter

from msgspec import Struct

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.spec import Rollout
from holdfast.runtimes.status import RolloutProgress
from holdfast.runtimes.written import WHOLE, portion_of


class Replica(Struct, frozen=True, kw_only=True, gc=False):
    """One replica: a higher index was started later. `is_failing`: it keeps ending by itself, so
    that waiting for it to get ready is waiting in vain. `is_stopping`: it was told to end, and has
    not yet."""

    index: int
    revision: str
    is_ready: bool
    is_failing: bool = False
    is_stopping: bool = False


class Round(Struct, frozen=True, kw_only=True):
    """What to do now. `targets` are the replicas of each revision once it is done."""

    start: int
    stop: tuple[int, ...]
    targets: dict[str, int]
    progress: RolloutProgress
    is_done: bool
    wake_after_ms: int | None = None


class Bounds(Struct, frozen=True, gc=False):
    """How few may be ready and how many may live, while replicas are replaced."""

    least: int
    most: int


def bounds_of(rollout: Rollout, desired: int) -> Bounds:
    """Where neither is allowed nothing could ever move: then there is one extra."""
    surge = portion_of(rollout.surge, desired, upwards=True)
    unavailable = portion_of(rollout.unavailable, desired, upwards=False)
    if surge <= 0 and unavailable <= 0:
        surge = 1
    return Bounds(max(0, desired - unavailable), desired + surge if desired else 0)


def next_round(
    *,
    wanted: str,
    desired: int,
    replicas: tuple[Replica, ...],
    rollout: Rollout,
    before: RolloutProgress | None,
    now: Instant,
) -> Round:
    """The next round towards `desired` replicas of revision `wanted`. `before` is the progress
    that the round before it told, None or that of another revision at the beginning."""
    stage = _Stage(wanted, desired, replicas, rollout)
    step, paused_until = stage.advance(before, now)
    start, stop = stage.moves(step)
    return Round(
        start=start,
        stop=tuple(replica.index for replica in stop),
        targets=stage.targets(start, stop),
        progress=stage.progress(step, paused_until),
        is_done=stage.is_done,
        wake_after_ms=max(1, paused_until - now) if paused_until != NEVER else None,
    )


class _Stage:
    """The replicas as they stand, and what may be done with them."""

    def __init__(
        self, wanted: str, desired: int, replicas: tuple[Replica, ...], rollout: Rollout
    ) -> None:
        self.wanted, self.desired, self.rollout = wanted, desired, rollout
        self.bounds = bounds_of(rollout, desired)
        self.living = [replica for replica in replicas if not replica.is_stopping]
        self.leaving = len(replicas) - len(self.living)
        self.new = [replica for replica in self.living if replica.revision == wanted]
        self.old = [replica for replica in self.living if replica.revision != wanted]
        shares = tuple(int(share) for share in rollout.steps)
        # Whatever was written, a rollout ends with all of it.
        self.shares = shares if shares and shares[-1] == WHOLE else (*shares, WHOLE)

    @property
    def is_done(self) -> bool:
        ready = sum(replica.is_ready for replica in self.new)
        return not self.old and not self.leaving and len(self.new) == ready == self.desired

    @property
    def is_stopped(self) -> bool:
        """A replica of the wanted revision fails while others are there to do the work."""
        fails = any(replica.is_failing for replica in self.new)
        return fails and any(replica.is_ready for replica in self.old)

    def share_of(self, step: int) -> int:
        """How many of the wanted revision a step asks for."""
        return -(-self.desired * self.shares[step - 1] // WHOLE)

    def advance(self, before: RolloutProgress | None, now: Instant) -> tuple[int, Instant]:
        """The step it is at, and until when it pauses there; NEVER while it does not."""
        last = len(self.shares)
        if not self.old:
            # There is nothing to be careful about: nobody is replaced.
            return last, NEVER
        step, paused_until = 1, NEVER
        if before is not None and before.revision == self.wanted:
            step, paused_until = min(max(before.step, 1), last), before.paused_until
        while step < last and self._has_reached(step):
            if paused_until == NEVER:
                paused_until = Instant(now + int(self.rollout.pause))
            if now < paused_until:
                return step, paused_until
            step, paused_until = step + 1, NEVER
        return step, NEVER

    def _has_reached(self, step: int) -> bool:
        ready = sum(replica.is_ready for replica in self.new)
        share = self.share_of(step)
        return ready >= share and len(self.old) <= self.desired - share

    def moves(self, step: int) -> tuple[int, list[Replica]]:
        """How many to start, and which to stop."""
        if self.is_stopped:
            return 0, self._stopped(max(0, len(self.living) - self.bounds.most), failing_first=True)
        share = self.share_of(step)
        # Old ones that went by themselves are made up for, whatever the step.
        wished = min(self.desired, max(share, self.desired - len(self.old)))
        room = self.bounds.most - len(self.living) - self.leaving
        start = max(0, min(wished - len(self.new), room))
        kept = max(0, self.desired - max(share, len(self.new)))
        surplus = max(0, len(self.new) - self.desired)
        return start, self._stopped(max(0, len(self.old) - kept), surplus=surplus)

    def _stopped(
        self, from_old: int, *, surplus: int = 0, failing_first: bool = False
    ) -> list[Replica]:
        """Unready ones first, then the newest, as far as enough ready ones stay.

        A new one that is not ready yet is counted on by nobody: the old ones it will replace are
        left alone, ready or not, since those may be ready sooner. Ready ones go only when all
        unready ones went, so what is to spare then is ready.
        """
        unready_new = sum(not replica.is_ready for replica in self.new)
        spare = len(self.living) - unready_new - self.bounds.least
        candidates = _first_to_go(self.old)[:from_old] + _first_to_go(self.new)[:surplus]
        if failing_first:
            failing = [replica for replica in self.new if replica.is_failing]
            candidates = (_first_to_go(failing) + _first_to_go(self.old))[:from_old]
        stopped = []
        for replica in candidates:
            is_counted = replica.is_ready or replica.revision != self.wanted
            if is_counted and spare <= 0:
                continue
            stopped.append(replica)
            spare -= is_counted
        return stopped

    def targets(self, start: int, stop: list[Replica]) -> dict[str, int]:
        counts = Counter(replica.revision for replica in self.living)
        counts[self.wanted] += start
        counts.subtract(replica.revision for replica in stop)
        return {revision: counts[revision] for revision in sorted(counts)}

    def progress(self, step: int, paused_until: Instant) -> RolloutProgress:
        steps = len(self.shares) if self.rollout.steps else 0
        return RolloutProgress(
            revision=self.wanted,
            updated=len(self.new),
            desired=self.desired,
            step=step if steps else 0,
            steps=steps,
            paused_until=paused_until,
            is_stopped=self.is_stopped,
            message=self._message(paused_until),
        )

    def _message(self, paused_until: Instant) -> str:
        failing = sum(replica.is_failing for replica in self.new)
        waiting = sum(not replica.is_ready for replica in self.new)
        if self.is_stopped:
            ready = sum(replica.is_ready for replica in self.old)
            return f"{failing} of the new revision keep failing; {ready} of the old stay up"
        if paused_until != NEVER:
            return "it pauses before the next step"
        return f"waits for {waiting} of the new revision" if waiting else ""


def _first_to_go(replicas: list[Replica]) -> list[Replica]:
    return sorted(replicas, key=lambda replica: (replica.is_ready, -replica.index))

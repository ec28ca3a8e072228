"""Commits that are made before their attempts end, as the agent sees them.

Such an attempt tells its result and goes on: it waits for the verdict and, if that is good, does
what must come after the commit and must not be done twice. That block is owed like anything else
that a commit owes. Its worker alone can say what became of it, and carries it until it does.
"""

from collections.abc import Iterable
from typing import Any, Final

from holdfast.core.ids import LeaseId
from holdfast.core.owed import DebtName
from holdfast.wire.delivery import Bounced
from holdfast.wire.exchange import ANOTHER_LOG, COMMITTED, Done, Exchange, Progress, Verdict
from holdfast.worker.executor import Executor, Harvest, Left
from holdfast.worker.lanes import GIVEN_UP
from holdfast.worker.parcels import Parcels

LOST_GRACE_MS: Final = 5_000
"""How long an attempt whose commit was not accepted may take to end by itself."""


class EarlyCommits:
    """`names` are the blocks of attempts that have asked for their commits, until each is over.
    `progress` is the latest word of each attempt on how far it is, until that has been heard."""

    def __init__(self, executor: Executor, parcels: Parcels) -> None:
        self.names: dict[LeaseId, DebtName] = {}
        self.progress: dict[LeaseId, Progress] = {}
        self._executor = executor
        self._parcels = parcels
        # Those whose verdict has not come, and of them those that are over all the same.
        self._asking: set[LeaseId] = set()
        self._over: dict[LeaseId, Left] = {}
        # Those that were told no, and when they must have ended.
        self._refused: dict[LeaseId, int] = {}

    def absorb(self, harvest: Harvest, held: dict[LeaseId, Any]) -> list[Done]:
        """Which commits to report. One whose lease is no longer held is refused at once."""
        wanted: list[Done] = []
        for done in harvest.early:
            lease_id = done.lease_id
            if held.pop(lease_id, None) is None:
                self._executor.answer(lease_id, GIVEN_UP)
                continue
            # The block is the last thing that the commit owes.
            self.names[lease_id] = name = DebtName(done.job_id, done.index, len(done.owed) - 1)
            self._parcels.carry(name)
            self._asking.add(lease_id)
            wanted.append(done)
        for told in harvest.progress:
            self.progress[told.lease_id] = told
        for left in harvest.left:
            if left.lease_id in self._asking:
                self._over[left.lease_id] = left
            else:
                self._settle(left)
        return wanted

    def heard(self, sent: Exchange, verdicts: Iterable[Verdict], now_ms: int) -> None:
        """That exchange was answered: what was not objected to is committed."""
        for told in sent.progress:
            if self.progress.get(told.lease_id) is told:
                del self.progress[told.lease_id]
        asked = [done.lease_id for done in sent.done if done.lease_id in self._asking]
        if not asked:
            return
        # A refusal that names no lease is one of everything of its kind.
        objections = {v.lease_id: v.why for v in verdicts if v.verdict != COMMITTED}
        for lease_id in asked:
            why = objections.get(lease_id, objections.get(LeaseId(0)))
            if why is not None:
                self.refuse(lease_id, why or GIVEN_UP, now_ms)
                continue
            self._asking.remove(lease_id)
            left = self._over.pop(lease_id, None)
            if left is None:
                self._executor.answer(lease_id, "")
            else:
                self._settle(left)

    def refuse(self, lease_id: LeaseId, why: str, now_ms: int = 0) -> None:
        """This one has not committed, and its block must not be entered."""
        if lease_id not in self._asking:
            return
        self._asking.remove(lease_id)
        self._parcels.uncarry(self.names.pop(lease_id))
        if self._over.pop(lease_id, None) is None:
            self._refused[lease_id] = now_ms + LOST_GRACE_MS
            self._executor.answer(lease_id, why)

    def leave_log(self, now_ms: int) -> None:
        """Another log answers: nobody will commit what was asked for."""
        for lease_id in list(self._asking):
            self.refuse(lease_id, ANOTHER_LOG, now_ms)
        self.progress.clear()

    def dues(self) -> Iterable[int]:
        return self._refused.values()

    def mind(self, now_ms: int) -> None:
        """End those that were told no and go on as if nothing had been said."""
        for lease_id in [each for each, due in self._refused.items() if now_ms >= due]:
            del self._refused[lease_id]
            self._executor.stop(lease_id)

    def _settle(self, left: Left) -> None:
        name = self.names.pop(left.lease_id, None)
        if name is None:
            return
        if left.error:
            self._parcels.bounce(Bounced(name, left.error, is_final=True))
        else:
            self._parcels.delivered(name)

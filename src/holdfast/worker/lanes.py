"""What both executors owe the agent: every lease they take is answered for, exactly once.

The agent asks from one thread; attempts end in others. Whatever ends comes here as an outcome,
and this book decides whether anybody still wants it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from holdfast.core.ids import LeaseId
from holdfast.wire.exchange import Done, Failed, Item, Lingering, Progress, Released, Run
from holdfast.worker.executor import Harvest, Left, Running, merge
from holdfast.worker.troubles import Trouble

# One leased task and the run it came in. A bare tuple, because there is one for every task.
Entry = tuple[Run, Item]

Outcome = Done | Failed | Released

# What an attempt says while it runs: its early commit, that what came after is over, how far it is.
Aside = Done | Left | Progress

GIVEN_UP: Final = "the attempt was ended"
CLOSING: Final = "the worker is closing"
CUT_SHORT: Final = "it was ended before it was left"

STEAL_MAX: Final = 64

NO_BUNDLES: Final = Trouble(
    "it needs a bundle, and nothing here fetches one; start a worker of the server", "", None
)
"""Without its own code a task would run whatever has the same name here."""


class Leases:
    """The leases an executor holds. Changed by the agent's thread alone; any thread may look."""

    def __init__(self) -> None:
        self._held: dict[LeaseId, Entry] = {}
        self._given_up: set[LeaseId] = set()
        # Those that have asked for their commit and go on, and those of them whose block is open.
        self._early: set[LeaseId] = set()
        self._inside: set[LeaseId] = set()
        # When attempts told of progress last.
        self._told: dict[LeaseId, int] = {}

    def admit(self, run: Run) -> list[Entry]:
        entries = [(run, item) for item in run.items]
        self._held.update({entry[1].lease_id: entry for entry in entries})
        return entries

    def give_up(self, lease_id: LeaseId) -> bool:
        """From now on nothing is reported for this lease. False when it is not held any more."""
        if lease_id not in self._held:
            return False
        self._given_up.add(lease_id)
        return True

    def settle(self, outcomes: Iterable[Outcome]) -> Harvest:
        """Close the book on these attempts; those given up are dropped without a word.

        An outcome for a lease that is not held is a repeat, and is dropped too.
        """
        harvest = Harvest(done=[], failed=[], released=[])
        held, given_up, early = self._held, self._given_up, self._early
        done = harvest.done
        if self._told:
            outcomes = list(outcomes)
            for outcome in outcomes:
                self._told.pop(outcome.lease_id, None)
        for outcome in outcomes:
            if held.pop(outcome.lease_id, None) is None:
                continue
            if early and outcome.lease_id in early:
                self._settle_early(outcome, harvest)
            elif given_up and outcome.lease_id in given_up:
                given_up.remove(outcome.lease_id)
            elif type(outcome) is Done:
                done.append(outcome)
            elif type(outcome) is Failed:
                harvest.failed.append(outcome)
            elif type(outcome) is Released:
                harvest.released.append(outcome)
        return harvest

    def _settle_early(self, outcome: Outcome, harvest: Harvest) -> None:
        """It has told its result before; how it ended matters where its block was still open."""
        lease_id = outcome.lease_id
        self._early.remove(lease_id)
        self._given_up.discard(lease_id)
        if lease_id in self._inside:
            self._inside.remove(lease_id)
            error = ""
            if type(outcome) is Failed:
                error = outcome.error
            elif type(outcome) is Released:
                error = CUT_SHORT
            harvest.left.append(Left(lease_id, error))

    def gather(
        self,
        outcomes: deque[Outcome],
        asides: deque[Aside],
        now_ms: int,
        refuse: Callable[[LeaseId], None],
    ) -> Harvest:
        """Take in how attempts ended, and what they said before. Ends are looked at first, so that
        nothing that was said before an end is taken in after it. `refuse`: this one has asked for
        a commit that it may not have."""
        ended = [outcomes.popleft() for _ in range(len(outcomes))]
        if not asides:
            return self.settle(ended)
        said = Harvest([], [], [])
        for word in [asides.popleft() for _ in range(len(asides))]:
            if word.lease_id not in self._held:
                continue
            if type(word) is Done and word.lease_id in self._given_up:
                refuse(word.lease_id)
            else:
                self._take_aside(word, said, now_ms)
        merge(said, self.settle(ended))
        return said

    def gather_last(self, outcomes: deque[Outcome], asides: deque[Aside]) -> Harvest:
        """Nothing runs any more: whatever is still waited for is given back. Commits that nobody
        has heard of are not made."""
        kept = deque(word for word in asides if type(word) is not Done)
        asides.clear()
        harvest = self.gather(outcomes, kept, 0, lambda _: None)
        wanted = list(self.wanted())
        merge(harvest, self.settle([released(entry, started=True) for entry in wanted]))
        return harvest

    def _take_aside(self, word: Aside, said: Harvest, now_ms: int) -> None:
        lease_id = word.lease_id
        if type(word) is Progress:
            self._told[lease_id] = now_ms
            said.progress.append(word)
        elif type(word) is Left and lease_id in self._inside:
            self._inside.remove(lease_id)
            said.left.append(word)
        elif type(word) is Done and lease_id not in self._early:
            self._early.add(lease_id)
            self._inside.add(lease_id)
            said.early.append(word)

    def note_life(self, lease_id: LeaseId, now_ms: int) -> None:
        """It has shown that it goes on, without a word of its own."""
        self._told[lease_id] = now_ms

    def entry(self, lease_id: LeaseId) -> Entry | None:
        return self._held.get(lease_id)

    def is_given_up(self, lease_id: LeaseId) -> bool:
        return lease_id in self._given_up

    def is_over(self, lease_id: LeaseId) -> bool:
        """Whether it is given up, or has committed or asked for it: no right to run is left."""
        return lease_id in self._given_up or lease_id in self._early

    def wanted(self) -> Iterator[Entry]:
        """What is held and still waited for."""
        return (entry for lease_id, entry in self._held.items() if lease_id not in self._given_up)

    def lingering(self, lanes: Mapping[LeaseId, int]) -> tuple[Lingering, ...]:
        """What was given up or has committed and is not answered for: it may run, in the lane that
        has it or in that of its slot."""
        if not self._given_up and not self._early:
            return ()
        # A copy in one step: somebody else may be looking while the agent's thread adds to it.
        over = sorted({*self._given_up.copy(), *self._early.copy()})
        found = [self._held.get(lease_id) for lease_id in over]
        return tuple(
            Lingering(
                item.lease_id, lanes.get(item.lease_id, run.slot), run.cpus_milli,
                run.memory_bytes, run.gpus, run.resources, run.job_id,
            )
            for run, item in filter(None, found)
        )  # fmt: skip

    def running(self, entry: Entry, since_ms: int) -> Running:
        run, item = entry
        told_ms = self._told.get(item.lease_id, since_ms) if run.stall_ms else 0
        return Running(
            run.job_id, item.index, item.lease_id, since_ms, run.timeout_ms, told_ms, run.stall_ms
        )


def released(entry: Entry, *, started: bool) -> Released:
    run, item = entry
    return Released(run.job_id, item.index, item.lease_id, started)


def failed(entry: Entry, ran_ms: int, trouble: Trouble, reason: str = "failed") -> Failed:
    run, item = entry
    return Failed(
        run.job_id,
        item.index,
        item.lease_id,
        ran_ms,
        reason,
        trouble.error,
        trouble.traceback,
        trouble.exit_code,
    )

"""What both executors owe the agent: every lease they take is answered for, exactly once.

The agent asks from one thread; attempts end in others. Whatever ends comes here as an outcome,
and this book decides whether anybody still wants it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from holdfast.core.ids import LeaseId
from holdfast.wire.exchange import Done, Failed, Item, Lingering, Released, Run
from holdfast.worker.executor import Harvest, Running
from holdfast.worker.troubles import Trouble

# One leased task and the run it came in. A bare tuple, because there is one for every task.
Entry = tuple[Run, Item]

Outcome = Done | Failed | Released

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
        held, given_up = self._held, self._given_up
        done = harvest.done
        for outcome in outcomes:
            if held.pop(outcome.lease_id, None) is None:
                continue
            if given_up and outcome.lease_id in given_up:
                given_up.remove(outcome.lease_id)
            elif type(outcome) is Done:
                done.append(outcome)
            elif type(outcome) is Failed:
                harvest.failed.append(outcome)
            elif type(outcome) is Released:
                harvest.released.append(outcome)
        return harvest

    def entry(self, lease_id: LeaseId) -> Entry | None:
        return self._held.get(lease_id)

    def is_given_up(self, lease_id: LeaseId) -> bool:
        return lease_id in self._given_up

    def wanted(self) -> Iterator[Entry]:
        """What is held and still waited for."""
        return (entry for lease_id, entry in self._held.items() if lease_id not in self._given_up)

    def lingering(self, lanes: Mapping[LeaseId, int]) -> tuple[Lingering, ...]:
        """What was given up and is not answered for: it may run, in the lane that has it or in
        that of its slot."""
        if not self._given_up:
            return ()
        # A copy in one step: somebody else may be looking while the agent's thread adds to it.
        found = [self._held.get(lease_id) for lease_id in sorted(self._given_up)]
        return tuple(
            Lingering(
                item.lease_id, lanes.get(item.lease_id, run.slot), run.cpus_milli,
                run.memory_bytes, run.gpus, run.resources,
            )
            for run, item in filter(None, found)
        )  # fmt: skip

    def running(self, entry: Entry, since_ms: int) -> Running:
        run, item = entry
        return Running(run.job_id, item.index, item.lease_id, since_ms, run.timeout_ms)


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

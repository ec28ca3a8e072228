"""A lane whose tasks run in a child: what waits here, what is inside, and who runs it.

Tasks are handed to the child in small helpings, about 20 ms of work, so that most of what waits
can be taken back or given to another lane without asking anybody.
"""

import os
from collections import deque
from typing import Final

from msgspec import structs

from holdfast.core.ids import JobId, LeaseId
from holdfast.core.spec import STOP
from holdfast.wire.exchange import Done, Run
from holdfast.worker import frames
from holdfast.worker.frames import Broke, Ran, Said, Withdraw, encode
from holdfast.worker.lanes import STEAL_MAX, Aside, Entry, Outcome, failed
from holdfast.worker.printing import Ends
from holdfast.worker.prints import LanePrints
from holdfast.worker.slate import Slate, shared_file
from holdfast.worker.troubles import Trouble
from holdfast.worker.warm import WarmChild

HELPING_US: Final = 20_000
WINDOW_FIRST: Final = 4
WINDOW_LEAST: Final = 2
WINDOW_MOST: Final = 1024
SPAWN_BACKOFF_S: Final = 0.1


class KeptLane:
    """Used by whoever holds the keeper's lock, but for the slate, which anybody may read."""

    def __init__(self) -> None:
        self.slate = Slate(shared_file("holdfast-slate"))
        # Where its tasks print, and who is told of it; None where they print with us.
        self.prints: LanePrints | None = None
        self.crash = shared_file("holdfast-crash")
        self.queue: deque[Entry] = deque()
        # Given to the child and not yet answered for, in the order given.
        self.inside: dict[LeaseId, Entry] = {}
        self.asked_back: set[LeaseId] = set()
        self.job: JobId | None = None
        self.child: WarmChild | None = None
        # The digest of the code the child was started with; a child knows no other.
        self.bundle = ""
        self.is_ready = False
        self.has_run = False
        self.is_leaving = False
        # Its slot is used for something else: it takes nothing from other lanes.
        self.is_retired = False
        # Whether what is here must not outlive its leases, and whether the guardian knows.
        self.must_end = False
        self.is_bound = False
        # The attempt that has asked for its commit: what it does then takes as long as it likes, so
        # nothing waits behind it. Accepted, it has no lease any more that it could outlive.
        self.past: LeaseId | None = None
        # When a child being ended by us gets SIGKILL; None while it may live.
        self.kill_at: float | None = None
        # When the next child may start, and how many in a row died before they were of use.
        self.spawn_at = 0.0
        self.barren = 0
        self._window = WINDOW_FIRST
        self._rest_us = 0

    @property
    def is_usable(self) -> bool:
        is_there = self.child is not None and self.kill_at is None
        return is_there and not self.is_leaving and self.past is None

    @property
    def is_idle(self) -> bool:
        is_able = self.is_usable and self.is_ready and not self.is_retired
        return is_able and not self.inside and not self.queue

    @property
    def wanted_bundle(self) -> str:
        """What a child would have to be started with to run what comes next."""
        return self.queue[0][0].bundle if self.queue else ""

    @property
    def must_change(self) -> bool:
        """Whether all that waits is for another child: this one has nothing to do any more."""
        is_done = self.is_usable and not self.inside and bool(self.queue)
        return is_done and self.wanted_bundle != self.bundle

    def let_leave(self, kill_at: float) -> None:
        """Make room for a child with other code; one that does not go by itself is killed."""
        if self.child is not None:
            self.is_leaving = True
            self.kill_at = kill_at
            self.child.send(frames.LEAVE)

    def take_over(self, child: WarmChild, bundle: str = "") -> None:
        self.child = child
        self.bundle = bundle
        self.is_ready = self.has_run = self.is_leaving = False
        self.kill_at = None

    def has_proved_itself(self) -> None:
        """The child has run something, so children can run here."""
        self.has_run = True
        self.barren = 0

    def count_barren(self, now: float) -> int:
        """Another child was of no use: how many in a row, after which the next one waits."""
        self.barren += 1
        self.spawn_at = now + SPAWN_BACKOFF_S * 4 ** (self.barren - 1)
        return self.barren

    @property
    def outputs(self) -> tuple[int, int] | None:
        """The descriptors its tasks print to."""
        return None if self.prints is None else self.prints.descriptors

    def note_output(self, entry: Entry, ends: Ends | None) -> None:
        """A task is over; it has printed up to these ends, or nothing."""
        if ends is not None and self.prints is not None:
            self.prints.told(entry, ends)

    def note_last_output(self, entry: Entry | None) -> None:
        """The child is dead, and was in this task."""
        if self.prints is not None:
            self.prints.died(entry)

    def line_up(self, run: Run, entries: list[Entry]) -> None:
        if run.job_id != self.job:
            # Another job says nothing about how long these take.
            self._window = WINDOW_FIRST
            self.job = run.job_id
        if run.on_disconnect == STOP:
            self.must_end = self.must_end or self.past is None
        elif not self.queue and not self.inside:
            self.must_end = False
        self.queue.extend(entries)

    def gives(self, run: Run, entries: list[Entry]) -> bool:
        """Take a run and give the child its helping. False, and nothing is taken, where the child
        or its guardian would have to be seen to first."""
        must_end = run.on_disconnect == STOP
        is_bound = must_end == self.must_end == self.is_bound
        if not self.is_usable or self.queue or run.bundle != self.bundle or not is_bound:
            return False
        self.line_up(run, entries)
        self.feed()
        return True

    @property
    def wants_keeper(self) -> bool:
        """Whether something is left to do: to share what waits, or to send what did not go."""
        return bool(self.queue) or (self.child is not None and self.child.has_unsent)

    def feed(self) -> None:
        """Give the child its next helping once half of the last one is answered for."""
        if self.child is None or not self.is_usable or len(self.inside) > self._window // 2:
            return
        room = self._window - len(self.inside)
        while self.queue and room > 0 and self.wanted_bundle == self.bundle:
            run = self.queue[0][0]
            helping: list[Entry] = []
            while self.queue and self.queue[0][0] is run and len(helping) < room:
                helping.append(self.queue.popleft())
            room -= len(helping)
            self.inside.update((entry[1].lease_id, entry) for entry in helping)
            items = tuple(item for _, item in helping)
            whole = run if len(items) == len(run.items) else structs.replace(run, items=items)
            self.child.send(frames.RUN, encode(whole))

    def learn(self, outcomes: list[Ran | Broke]) -> None:
        """Fit the helpings to how long tasks take."""
        spent_us = sum(outcome.ran_us for outcome in outcomes)
        fitting = HELPING_US * len(outcomes) // max(spent_us, 1)
        self._window = max(WINDOW_LEAST, min(fitting, self._window * 2, WINDOW_MOST))

    def ask_back(self, lease_ids: list[LeaseId]) -> None:
        """Ask the child, once, for tasks it may not have begun. The answer comes as a notice.

        What it does not give back has begun, so there is no use in asking again.
        """
        asking = [lease_id for lease_id in lease_ids if lease_id not in self.asked_back]
        if asking and self.child is not None:
            self.asked_back.update(asking)
            self.child.send(frames.WITHDRAW, encode(Withdraw(lease_ids=asking)))

    def hear(self, kind: int, body: bytes) -> Aside:
        """The task that runs says something. One that asks for its commit is not waited for."""
        word = frames.ASIDES[kind](body)
        if kind == frames.COMMIT and word.lease_id in self.inside:
            self.past = word.lease_id
            self.ask_back([lease_id for lease_id in self.inside if lease_id != self.past])
        return word

    def answer(self, lease_id: LeaseId, why: str) -> None:
        """Tell the task that runs here what came of its commit."""
        if lease_id == self.past and self.child is not None:
            self.must_end = self.must_end and bool(why)
            self.child.send(frames.VERDICT, encode(Said(lease_id, why)))

    def forget(self, lease_id: LeaseId) -> None:
        """This one is not here any more."""
        self.asked_back.discard(lease_id)
        if lease_id == self.past:
            self.past = None
            left = (*self.queue, *self.inside.values())
            self.must_end = any(run.on_disconnect == STOP for run, _ in left)

    def spare(self) -> list[Entry]:
        """Half of what waits here, from its end; all of it where no child can take it.

        A lane that is in no task starts the first itself.

        Only tasks of the lane's own job may move, to a lane of that job: the slots of both were
        counted for their resources.
        """
        waiting = len(self.queue)
        share = (waiting + bool(self.inside)) // 2 if self.is_usable else waiting
        spared: list[Entry] = []
        while len(spared) < min(share, STEAL_MAX) and self._may_move(self.queue[-1][0]):
            spared.append(self.queue.pop())
        spared.reverse()
        return spared

    def ask_for_spare(self) -> None:
        """Ask the child for half of what it has not begun. The first it holds it is in, or past."""
        behind = list(self.inside.values())[1:]
        movable = [item.lease_id for run, item in behind if self._may_move(run)]
        self.ask_back(movable[len(movable) // 2 :])

    def _may_move(self, run: Run) -> bool:
        return run.job_id == self.job and not run.alone

    def withdraw(self, lease_ids: frozenset[LeaseId]) -> list[Entry]:
        """Take those out of the queue that still wait here."""
        found = [entry for entry in self.queue if entry[1].lease_id in lease_ids]
        if found:
            kept = [entry for entry in self.queue if entry[1].lease_id not in lease_ids]
            self.queue = deque(kept)
        return found

    def report_of(self, entry: Entry, outcome: Ran | Broke) -> Outcome:
        """How a task ended, as the agent passes it on. What is less than a millisecond is counted
        with the next: many short tasks are not told to have taken no time at all."""
        run, item = entry
        ran_ms, self._rest_us = divmod(self._rest_us + outcome.ran_us, 1_000)
        if isinstance(outcome, Ran):
            return Done(
                run.job_id, item.index, item.lease_id, ran_ms, outcome.result, outcome.owed,
                outcome.stored,
            )  # fmt: skip
        trouble = Trouble(outcome.error, outcome.traceback, outcome.exit_code)
        return failed(entry, ran_ms, trouble)

    def close(self) -> None:
        self.slate.close()
        os.close(self.crash)


def balance(lanes: list[KeptLane]) -> None:
    """Let idle lanes take what waits behind others of the same job."""
    for thief in lanes:
        if not thief.is_idle:
            continue
        others = [lane for lane in lanes if lane is not thief and lane.job == thief.job]
        victim = max(others, key=lambda lane: len(lane.queue) + len(lane.inside), default=None)
        if victim is None:
            continue
        if victim.queue:
            spared = victim.spare()
            must_end = any(run.on_disconnect == STOP for run, _ in spared)
            thief.must_end = thief.must_end or must_end
            thief.queue.extend(spared)
        else:
            victim.ask_for_spare()


def lanes_of(count: int) -> list[KeptLane]:
    """As many lanes, or none: each takes descriptors, of which there may be too few."""
    lanes: list[KeptLane] = []
    try:
        for _ in range(count):
            lanes.append(KeptLane())
    except BaseException:
        for lane in lanes:
            lane.close()
        raise
    return lanes

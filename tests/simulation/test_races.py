"""A commit races an expiry, a cancel, another commit: by the order of the log exactly one wins.

What must come of each order is said by a model of its own: a few words about one task, without a
line of the core. Everything happens at instants around the end of a lease.
"""

from collections import Counter
from random import Random

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.apply import apply
from holdfast.core.decide import decide
from holdfast.core.decision import Accepted
from holdfast.core.ids import Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.invariants import check
from holdfast.core.job import state_of
from holdfast.core.record import Record
from holdfast.core.reports import Done, Failed, Released
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.core.state import State
from holdfast.core.task import TaskState

JOB, FIRST, TERM_MS = JobId("j"), Index(0), 100
SPEC = JobSpec(
    name="n", kind="k", target="t", retries=50, max_losses=50, retry=RetryPolicy(kind="none")
)
RACERS = (
    "commit", "commit", "commit", "fail", "release", "expire", "tick", "kill task", "kill job",
    "lose", "grant", "grant", "extend", "preempt", "retry", "restart",
)  # fmt: skip
STEPS_MS = (0, 0, 1, 49, TERM_MS - 1, TERM_MS, TERM_MS + 1)
SAMPLE = 500


class Model:
    """What is true of one task, and who may do what: the few words everything else must agree with.
    `leases` is to whom each was granted."""

    def __init__(self) -> None:
        self.winner = 0
        self.is_killed = False
        self.current = 0
        self.until = 0
        self.leases: dict[int, str] = {}

    def holds(self, lease: int, now: int) -> bool:
        return lease == self.current and lease != 0 and now < self.until

    def commits(self, lease: int, now: int) -> bool:
        """Whether a commit under this lease crosses the line. One that comes again crosses nothing;
        that it is told what was told before is the business of whoever answers."""
        if not self.holds(lease, now):
            return False
        self.winner, self.current = lease, 0
        return True


class Race:
    """One task and everything that may happen to it, in the order that the dice give."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.state, self.now, self.model = State(), Instant(1_000), Model()
        self.records: list[Record] = []
        self.commits: list[LeaseId] = []
        self.tried: Counter[str] = Counter()
        self.story: list[tuple[int, str]] = []
        self.do(c.SubmitJob(job_id=JOB, spec=SPEC, count=1))
        self.act("grant")

    def do(self, command: c.Command) -> Accepted | None:
        decision = decide(self.state, command, self.now)
        if not isinstance(decision, Accepted):
            return None
        if decision.events:
            record = Record(self.now, "", "", "", "", decision.events)
            self.records.append(record)
            apply(self.state, record, Position(self.state.position + 1))
        for event in decision.events:
            if isinstance(event, e.TasksCompleted):
                self.commits += [commit.lease_id for commit in event.commits]
        return decision

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now = Instant(self.now + self.dice.choice(STEPS_MS))
            self.act(self.dice.choice(RACERS))
            self.compare()

    def act(self, what: str) -> None:
        self.tried[what] += 1
        self.story.append((self.now, what))
        model, dice = self.model, self.dice
        # Mostly the one whose turn it is; now and then one that had its turn before, or never.
        known = [*model.leases] or [0]
        lease = LeaseId(dice.choice([known[-1], known[-1], dice.choice(known), known[-1] + 1]))
        worker = WorkerId(model.leases.get(lease, "nobody"))
        who = {"worker": worker, "incarnation": 1}
        at = (JOB, FIRST, lease)
        if what == "commit":
            decision = self.do(c.CommitTasks(**who, done=(Done(*at, 0, b"r"),)))
            assert decision is not None
            is_yes = not [lost for lost in decision.answer if lost.lease_id == lease]
            assert is_yes == model.commits(lease, self.now), (lease, self.story)
        elif what == "fail":
            failed = Failed(*at, 0, "failed", "no", "", 1)
            self.do(c.FailAttempt(**who, failed=failed, roll=0.0))
            self._ends(lease)
        elif what == "release":
            self.do(c.ReleaseAttempts(**who, released=(Released(*at, False),)))
            self._ends(lease)
        elif what == "preempt":
            self.do(c.PreemptAttempts(leases=(lease,), reason="more urgent"))
            self._ends(lease)
        elif what == "lose":
            self.do(c.LoseWorker(**who, error="gone"))
            if model.leases.get(model.current) == worker:
                model.current = 0
        elif what == "grant":
            self._grant()
        else:
            self._rest(what, who)

    def _ends(self, lease: int) -> None:
        if self.model.holds(lease, self.now) or lease == self.model.current:
            self.model.current = 0

    def _grant(self) -> None:
        model, worker = self.model, self.dice.choice("ab")
        grant = c.GrantLeases(
            job_id=JOB, worker=WorkerId(worker), incarnation=1, slot=0, indices=(FIRST,),
            term_ms=TERM_MS,
        )  # fmt: skip
        is_free = not (model.winner or model.is_killed) and (
            not model.current or self.now >= model.until
        )
        before = self.state.next_lease
        decision = self.do(grant)
        granted = LeaseId(self.state.next_lease - 1) if self.state.next_lease > before else 0
        if granted:
            assert is_free, "somebody else holds it, or it is over"
            assert decision is not None
            model.current, model.until = granted, self.now + TERM_MS
            model.leases[granted] = worker

    def _rest(self, what: str, who: dict[str, object]) -> None:
        model = self.model
        if what == "expire":
            self.do(c.ExpireLeases(**who))  # type: ignore[arg-type]
        elif what == "tick":
            self.do(c.Tick(wall=self.now))
        elif what == "extend":
            self.do(c.ExtendLeases(**who, term_ms=TERM_MS))  # type: ignore[arg-type]
            mine = model.leases.get(model.current) == who["worker"]
            if mine and model.current and self.now < model.until:
                model.until = max(model.until, self.now + TERM_MS)
        elif what == "retry":
            told = self.do(c.RetryTasks(job_id=JOB))
            assert told is None or not told.events, "nothing here is ever quarantined"
        elif what == "restart":
            self.state = State()
            for place, record in enumerate(self.records, start=1):
                apply(self.state, record, Position(place))
        else:
            kill: c.Command = c.KillJob(job_id=JOB)
            if what == "kill task":
                kill = c.KillTasks(job_id=JOB, indices=(FIRST,))
            self.do(kill)
            model.is_killed = model.is_killed or not model.winner
            model.current = 0

    def compare(self) -> None:
        model = self.model
        assert len(self.commits) <= 1, "committed twice"
        assert self.commits == ([model.winner] if model.winner else [])
        state = state_of(self.state.jobs[JOB], FIRST)
        assert (state is TaskState.SUCCEEDED) == bool(model.winner)
        assert (state is TaskState.KILLED) == model.is_killed
        if state in (TaskState.LEASED, TaskState.RUNNING):
            task = (self.state.jobs[JOB].tasks or {})[FIRST]
            # One that is past its time stays until somebody meets it.
            assert task.lease_id == model.current or self.now >= model.until


def race(dice: Random, count: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    for number in range(count):
        one = Race(dice)
        one.run(dice.randrange(4, 12))
        if number % 50 == 0:
            assert list(check(one.state)) == []
        model = one.model
        seen["committed" if model.winner else "killed" if model.is_killed else "open"] += 1
        seen["lost its lease"] += len(model.leases) > 1
        seen.update(one.tried)
    return seen


def test_001_80_concurrent_ends_of_one_attempt_have_exactly_one_winner(dice: Random) -> None:
    seen = race(dice, SAMPLE)
    assert min(seen[name] for name in ("committed", "killed", "lost its lease", *RACERS)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(4))
def test_001_92_twenty_thousand_parallel_orders_have_one_winner_each(shard, dice: Random) -> None:
    race(dice, 5_000)


@pytest.mark.soak
def test_001_92_a_hundred_thousand_parallel_orders_have_one_winner_each(dice: Random) -> None:
    seen = race(dice, 100_000)
    assert min(seen["committed"], seen["killed"]) > 0

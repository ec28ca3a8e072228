"""The same cluster and the same bad network, for jobs with wishes: gangs, ties to other jobs,
constraints, named resources, limits, priorities that grow by waiting, and preemption.

What the log says is judged record by record, and in the end every job must have come to the end
that its ties say.
"""

from functools import partial
from typing import Any, Final

from holdfast.core import commands as c
from holdfast.core.decision import Accepted, Decision, Refused
from holdfast.core.ids import Index, JobId
from holdfast.core.job import BY_PERSON, DEPENDENCY_FAILED, PARENT_ENDED, Job, is_finished
from holdfast.core.placing import (
    ALL_TASKS,
    CONDITIONS,
    FATES,
    SPREAD,
    After,
    Constraint,
    Placing,
)  # fmt: skip
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.core.ties import Verdict, verdict
from holdfast.testing.cluster import Cluster
from holdfast.testing.member import MEMORY, Action, Member
from holdfast.testing.placed_judge import Judge, Site
from holdfast.testing.stepped import FAILS
from holdfast.wire.exchange import LEASE_LOST, Reply

AGING_MS: Final = 8_000
LICENCES: Final = (("licence", 2_000),)
RACKS: Final = {"w0": "a", "w1": "a", "w2": "b", "w3": "b"}

WISHES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"gang": 3},
    {"gang": 2, "gang_by": "rack", "memory_bytes": MEMORY // 2 + 1},
    {"gang": 3, "priority": 1},
    {"constraints": (Constraint("rack", "eq", ("a",)),)},
    {"constraints": (Constraint("rack", "ne", ("a",)), Constraint("rack", "eq", ("a",), 10))},
    {"resources": (("licence", 1_000),), "namespace": "small"},
    {"resources": (("licence", 2_000),), "spread": SPREAD},
    {"keys": (("database", 2),)},
    {"keys": (("tape", 0),), "user": "ada"},
    {"namespace": "slow"},
    {"namespace": "small", "user": "ada"},
    {"priority": 9, "preempts": True},
    {"priority": 9, "preempts": True, "memory_bytes": MEMORY // 2 + 1},
    {"priority": 4, "preempts": True, "gang": 2},
    {"target": FAILS},
    {"target": FAILS, "gang": 2},
)
"""What jobs ask for. The size of a gang stands for the wish to be one."""

LIMITS: Final = (
    c.SetLimit(scope="namespace", name="small", running=2),
    c.SetLimit(scope="namespace", name="slow", starts=4, per_ms=2_000, weight=3),
    c.SetLimit(scope="user", name="ada", running=3, starts=10, per_ms=1_000),
    c.SetLimit(scope="key", name="tape", running=1),
    c.SetLimit(
        scope="namespace", name="default", running=7, weight=2, amounts=(("cpus", 6_000),)
    ),
)
OTHER_LIMITS: Final = (
    c.SetLimit(scope="namespace", name="small", running=1),
    c.SetLimit(scope="namespace", name="small", running=3),
    c.SetLimit(scope="user", name="ada", running=1),
    c.SetLimit(scope="namespace", name="default", running=4),
    # A gang of two takes more memory than one machine has.
    c.SetLimit(
        scope="namespace", name="default", amounts=(("cpus", 4_000), ("memory", 2 * MEMORY))
    ),
    c.SetLimit(scope="namespace", name="small", amounts=(("licence", 1_000),)),
    c.ClearLimit(scope="key", name="tape"),
    c.ClearLimit(scope="user", name="ada"),
)
TIED: Final = 0.6
"""The share of jobs that come after others or belong to one."""


class PlacedMember(Member):
    """A worker that notes which of its results are kept until the rest of their gang is there."""

    notes: "PlacedCluster"

    def receive(self, reply: Reply) -> None:
        if self.is_alive and not self.is_frozen and not self.is_cut_off:
            for lease in reply.kept:
                self.notes.note_kept(lease)
            for told in (*reply.verdicts, *reply.stops):
                if told.verdict == LEASE_LOST and told.lease_id in self.notes.kept:
                    self.notes.seen["kept result dropped"] += 1
        super().receive(reply)


class PlacedCluster(Cluster):
    """`kept` is the epoch of the coordinator that kept each result last."""

    def __init__(self, seed: int, *, workers: int = 4, jobs: int = 14) -> None:
        self.kept: dict[int, int] = {}
        self.refused: set[str] = set()
        self._wishes: dict[str, c.SubmitJob] = {}
        super().__init__(seed, workers=workers, jobs=jobs)
        self.service.aging_ms = AGING_MS
        self.service.exchanges.placement.aging.step_ms = AGING_MS
        for limit in LIMITS:
            self.at(0, partial(self._set, limit))

    def hire(self, name: str, incarnation: int, slots: int) -> Member:
        member = PlacedMember(
            self, name, incarnation, max(2, slots),
            attributes=(("rack", RACKS[name]),), resources=LICENCES,
        )  # fmt: skip
        member.notes = self
        return member

    # --- what users do --------------------------------------------------------------------------

    def wish(self, key: str) -> c.SubmitJob:
        if key not in self._wishes:
            self._wishes[key] = self._make_wish(key)
            self.wanted[key] = self._wishes[key].items
        return self._wishes[key]

    def _make_wish(self, key: str) -> c.SubmitJob:
        wish = dict(self.dice.choice(WISHES))
        count = wish.pop("gang", 0)
        known = sorted(self.acknowledged.values())
        ties = self._ties(known) if known and self.dice.random() < TIED else {}
        number = count or self.dice.choice((1, 4, 12))
        items = tuple(f"{key}:{n}".encode() for n in range(number))
        spec = _spec(wish, is_gang=bool(count))
        return c.SubmitJob(spec=spec, key=key, digest=key.encode(), items=items, **ties)

    def _ties(self, known: list[JobId]) -> dict[str, Any]:
        if self.dice.random() < 0.3:
            parent = self.dice.choice(known[-3:])
            return {"parent": parent, "detached": self.dice.random() < 0.3}
        named = self.dice.sample(known, min(len(known), self.dice.choice((1, 1, 2))))
        after = tuple(
            After(
                job_id,
                self.dice.choice((ALL_TASKS, ALL_TASKS, 0)),
                self.dice.choice((*CONDITIONS, "success")),
            )
            for job_id in named
        )
        return {"after": after, "fate": self.dice.choice(FATES)}

    def told(self, key: str, decision: Decision) -> None:
        super().told(key, decision)
        if isinstance(decision, Refused) and key not in self.refused:
            # Only one whose parent is over may be refused, and then nothing of it is there.
            self.refused.add(key)
            parent = self.service.coordinator.state.jobs.get(self._wishes[key].parent)
            if parent is None or key in self.service.coordinator.state.keys:
                self.troubles.append(f"{key} was refused: {decision}")
            self.wanted.pop(key, None)
            self.seen["parent is over"] += 1

    def _submit(self, key: str) -> None:
        if key not in self.refused:
            super()._submit(key)

    def _set(self, command: c.Command) -> None:
        if isinstance(self.service.do(command), Accepted):
            self.faults[type(command).__name__] += 1

    def _change_limit(self) -> None:
        self._set(self.dice.choice(LIMITS + OTHER_LIMITS))

    def _cancel(self) -> None:
        if self.acknowledged:
            job_id = self.dice.choice(sorted(self.acknowledged.values()))
            self._set(c.KillJob(job_id=job_id))

    def _retry(self) -> None:
        """Somebody sends back what failed; who came after it may get its turn after all."""
        if self.acknowledged:
            job_id = self.dice.choice(sorted(self.acknowledged.values()))
            self._set(c.RetryTasks(job_id=job_id))

    def _uncordon(self) -> None:
        for worker in tuple(self.service.coordinator.state.cordoned):
            self._set(c.UncordonWorker(worker=worker))

    def blows(self) -> list[Action]:
        more: list[Action] = [self._change_limit, self._cancel, self._retry, self._uncordon]
        return [*super().blows(), *more]

    # --- judging --------------------------------------------------------------------------------

    def note_kept(self, lease: int) -> None:
        former = self.kept.get(lease)
        if former is not None and former != self.epoch:
            self.seen["kept and told again"] += 1
        self.kept[lease] = self.epoch

    def unsettled(self) -> list[str]:
        """Those that are not finished and do not wait for something that will not come."""
        if not self._is_wild:
            self._uncordon()
        jobs = self.service.coordinator.state.jobs
        waiting: set[JobId] = set()
        for job_id, job in jobs.items():
            # A job only names those that were there before it.
            if not is_finished(job) and job.blocked and self._waits_for_ever(job, waiting):
                waiting.add(job_id)
        return [
            job_id
            for job_id in self.acknowledged.values()
            if not is_finished(jobs[job_id]) and job_id not in waiting
        ]

    def _waits_for_ever(self, job: Job, waiting: set[JobId]) -> bool:
        state = self.service.coordinator.state
        verdicts = [verdict(state, after) for after in job.after]
        if Verdict.DEAD in verdicts:
            return job.fate == "wait"
        return any(
            after.job_id in waiting and stands is Verdict.OPEN
            for after, stands in zip(job.after, verdicts, strict=True)
        )

    def judge(self) -> None:
        if self.service.writing:
            self.service.synced()
        self.service.settle()
        super().judge()
        sites = {
            str(member.name): Site(member.capacity, dict(member.attributes))
            for member in self.members
        }
        log = self.a_judge(sites)
        for record in self.service.records():
            log.feed(record)
        self.troubles += log.troubles
        self.seen += log.seen
        for lease in self.kept:
            self.seen["kept, then " + log.ended.get(lease, "held")] += 1
        if not self.troubles:
            self._look_at_ends(log)

    def a_judge(self, sites: dict[str, Site]) -> Judge:
        return Judge(sites)

    def _look_at_ends(self, log: Judge) -> None:
        """What became of each job is what its ties say."""
        state = self.service.coordinator.state
        for job_id, job in state.jobs.items():
            parent = state.jobs.get(job.parent) if job.parent and not job.detached else None
            if parent is not None and is_finished(parent) and not is_finished(job):
                self.troubles.append(f"job {job_id} outlived its parent")
            if job.cause == PARENT_ENDED and (parent is None or not is_finished(parent)):
                self.troubles.append(f"job {job_id} ended with a parent that goes on")
            dead = [one for one in job.after if verdict(state, one) is Verdict.DEAD]
            if job.cause == DEPENDENCY_FAILED and log.jobs[job_id].is_open:
                self.troubles.append(f"job {job_id} failed after it was unblocked")
            if not job.blocked or not dead or job.cause in {*BY_PERSON, PARENT_ENDED}:
                continue
            if (job.fate == "fail") != (job.cause == DEPENDENCY_FAILED):
                people = any((job_id, Index(n)) in self._meddled for n in range(job.count))
                if not (is_finished(job) and people):
                    self.troubles.append(f"job {job_id} ended {job.cause!r} with {dead} dead")


def _spec(wish: dict[str, Any], *, is_gang: bool) -> JobSpec:
    placing = {name: wish.pop(name) for name in Placing.__struct_fields__ if name in wish}
    target = wish.pop("target", "work")
    retry = RetryPolicy(kind="fixed", delay_ms=500, jitter=0.5)
    return JobSpec(
        name="work", kind="function", target=target, retries=0 if target == FAILS else 3,
        max_losses=1_000, retry=retry, placing=Placing(gang=is_gang, **placing), **wish,
    )  # fmt: skip

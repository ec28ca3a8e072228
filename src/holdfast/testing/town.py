"""A real coordinator with a few workers that are played by hand, and jobs of every kind.

A test hands in a seed; the same seed tells the same story. After a round every worker that lives
waits for an answer, so that what one turn gives out can be held against what was said before.
"""

from random import Random
from typing import Any

from holdfast.coordinator.crews import LiveCrew
from holdfast.coordinator.foreseeing import foreseen
from holdfast.coordinator.surroundings import Surroundings
from holdfast.core import commands as c
from holdfast.core.decision import Accepted, Refused
from holdfast.core.ids import NEVER, Index, Instant, JobId, LeaseId, WorkerId
from holdfast.core.job import Job, state_of
from holdfast.core.placing import ANYWHERE, CONDITIONS, WAIT, After, Placing
from holdfast.core.spec import CircuitPolicy, JobSpec, RetryBudget, RetryPolicy
from holdfast.core.state import State
from holdfast.core.task import TaskState
from holdfast.scheduler.explain import explain
from holdfast.scheduler.reasons import Reason
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.clusters import any_machine, any_wants
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Capacity, Done, Failed, Hello, Started

TERM_MS = 10_000
OF_PLACING = frozenset(Placing.__struct_fields__)
TaskName = tuple[JobId, Index]


class Member:
    """A worker as chance has it: it holds what it was given, and ends it as chance has it."""

    def __init__(self, service: Service, name: str, dice: Random) -> None:
        machine = any_machine(dice)
        total = machine.total
        self.post = Post(service, name=name)
        self.capacity = Capacity(
            machine.slots, total.cpus_milli, total.memory_bytes, total.gpus,
            tuple(total.named.items()),
        )  # fmt: skip
        self.hello = Hello("host", 1, "1", attributes=tuple(machine.attributes.items()))
        self.held: dict[LeaseId, TaskName] = {}
        self.is_draining = False
        self._read = 0

    def speak(self, dice: Random) -> None:
        """Take in what it was told, let some of it end, and say so."""
        for reply in self.post.replies[self._read :]:
            for run in reply.runs:
                for item in run.items:
                    self.held[item.lease_id] = (run.job_id, item.index)
            for stop in (*reply.stops, *reply.verdicts):
                self.held.pop(stop.lease_id, None)
        self._read = len(self.post.replies)
        started: list[Started] = []
        done: list[Done] = []
        failed: list[Failed] = []
        for lease, (job, index) in list(self.held.items()):
            fate = dice.random()
            if fate < 0.5:
                started.append(Started(job, index, lease, 0))
            if fate < 0.15:
                done.append(Done(job, index, lease, dice.choice((1, 900)), b""))
                del self.held[lease]
            elif fate < 0.3:
                failed.append(Failed(job, index, lease, 1, "failed", "no", "", None))
                del self.held[lease]
        self.is_draining = dice.random() < 0.1
        self.post.say(
            capacity=self.capacity, hello=self.hello, held=tuple(self.held),
            draining=self.is_draining, started=tuple(started), done=tuple(done),
            failed=tuple(failed),
        )  # fmt: skip


class Town:
    """A real coordinator with a few workers and jobs of every kind."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.clock = ManualClock()
        self.service = Service(self.clock, SeededDice(seed), term_ms=TERM_MS)
        count = self.dice.choice((0, 1, 2, 3, 4))
        self.members = [Member(self.service, f"w{n}", self.dice) for n in range(count)]
        self.jobs: list[JobId] = []

    @property
    def state(self) -> State:
        return self.service.coordinator.state

    def do(self, command: c.Command) -> bool:
        return isinstance(self.service.do(command), Accepted)

    def a_request(self) -> c.SubmitJob:
        dice, wants = self.dice, any_wants(self.dice)
        wishes = {name: wants.pop(name) for name in OF_PLACING & wants.keys()}
        retry = RetryPolicy(kind=dice.choice(("none", "fixed")), delay_ms=500, jitter=0)
        spec = JobSpec(
            name="j", kind="function", target=dice.choice("fg"), retry=retry,
            queue=dice.choice(("default", "default", "slow")),
            placing=Placing(**wishes) if wishes else ANYWHERE,
            circuit=dice.choice((CircuitPolicy(), CircuitPolicy(2, 5_000))),
            retry_budget=dice.choice((RetryBudget(), RetryBudget(1, 20_000))), **wants,
        )  # fmt: skip
        after: tuple[After, ...] = ()
        if self.jobs and dice.random() < 0.2:
            after = (After(dice.choice(self.jobs), condition=dice.choice(CONDITIONS)),)
        return c.SubmitJob(
            spec=spec, after=after, fate=WAIT,
            items=tuple(b"x" for _ in range(dice.randint(1, 6))),
            delay_ms=dice.choice((0, 0, 0, 700)),
            not_before_wall=dice.choice((NEVER, NEVER, NEVER, Instant(self.clock.wall() + 2_000))),
        )  # fmt: skip

    def submit(self, request: c.SubmitJob) -> JobId | None:
        decision = self.service.do(request)
        if not isinstance(decision, Accepted):
            return None
        self.jobs.append(JobId(str(decision.answer)))
        return self.jobs[-1]

    def stir(self) -> None:
        """People set bounds, and time passes."""
        dice = self.dice
        for _ in range(dice.randint(0, 2)):
            name = WorkerId(f"w{dice.randint(0, 3)}")
            self.do(
                dice.choice(
                    (
                        c.PauseQueue(queue="slow", reason=""),
                        c.ResumeQueue(queue="slow"),
                        c.CordonWorker(worker=name, reason=""),
                        c.UncordonWorker(worker=name),
                        c.SetLimit(scope="namespace", name="a", running=dice.randint(1, 3)),
                        c.SetLimit(scope="user", name="ann", starts=1, per_ms=1_000),
                        c.SetLimit(scope="key", name="db", running=1, starts=2, per_ms=900),
                        c.SetLimit(scope="namespace", name="b", amounts=(("cpus", 1_500),)),
                    )
                )
            )
        if self.jobs and dice.random() < 0.1:
            self.do(c.KillJob(job_id=dice.choice(self.jobs), reason=""))
        self.clock.advance(dice.choice((0, 1, 600, 3_000, TERM_MS + 1)))

    def round(self) -> None:
        """Everything that is due happens; then all workers ask, and nothing is answered yet."""
        self.stir()
        self.service.settle()
        for _ in range(self.dice.randint(0, 3)):
            self.submit(self.a_request())
        self.service.settle()
        quiet = [member for member in self.members if self.dice.random() < 0.1]
        if quiet:
            # Whoever says nothing must be silent for so long that nobody expects it to ask.
            self.service.exchanges.unpark_all()
            # Step by step: while the coordinator is away nobody is silent.
            for _ in range(10):
                self.clock.advance(TERM_MS // 8)
                self.service.settle()
        for member in self.members:
            if member not in quiet:
                member.speak(self.dice)

    # --- what is said ---------------------------------------------------------------------------

    def surroundings(self) -> Surroundings:
        coordinator = self.service.coordinator
        crew = LiveCrew(coordinator.state, self.service.exchanges)
        return Surroundings(coordinator.state, coordinator.now(), self.clock.wall(), crew)

    def foreseen(self, request: c.SubmitJob) -> dict[str, Any] | Refused:
        crew = LiveCrew(self.state, self.service.exchanges)
        return foreseen(self.service.coordinator, crew, request)

    def waiting(self) -> list[tuple[Job, Index]]:
        return [
            (job, index)
            for job in self.state.jobs.values()
            for index in map(Index, range(job.count))
            if state_of(job, index) is TaskState.WAITING
        ]

    def told(self) -> dict[TaskName, tuple[Reason, ...]]:
        around = self.surroundings()
        return {
            (job.job_id, index): explain(around.situation(job, index))
            for job, index in self.waiting()
        }

    def placed(self, before: set[TaskName]) -> set[TaskName]:
        """What one round of the real coordinator gives out of what waited before."""
        if self.service.turn():
            self.service.synced()
        still = {(job.job_id, index) for job, index in self.waiting()}
        return {
            name
            for name in before - still
            if state_of(self.state.jobs[name[0]], name[1]) is TaskState.LEASED
        }

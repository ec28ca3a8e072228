"""One coordinator, some workers and a bad network, all in one process and all from one seed.

Messages are dropped, doubled and delayed; the coordinator loses power; workers die, freeze and
leave; people cancel and move work. Nothing here waits: events lie on a heap and time jumps from
one to the next. The same seed gives the same run, so a failure is a number.
"""

from collections import Counter
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Final

from holdfast.coordinator.placement import MOST_PICKS
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision
from holdfast.core.ids import Index, JobId
from holdfast.core.job import is_finished
from holdfast.core.spec import STOP, CircuitPolicy, JobSpec, RetryBudget, RetryPolicy
from holdfast.testing.clock import EPOCH, ManualClock, SeededDice
from holdfast.testing.member import ASK_AGAIN_MS, GPUS, MEMORY, Action, Member
from holdfast.testing.service import Service
from holdfast.testing.stepped import answer_to
from holdfast.wire.exchange import Exchange, Reply

TERM_MS: Final = 10_000
WILD_MS: Final = 40_000
CALM_MS: Final = 600_000
IDLE_SPINS_MAX: Final = 50
CUT_AFTER: Final = (MOST_PICKS, 1, 3)
WANTED_MEMORY: Final = (0, MEMORY // 2 + 1, MEMORY // 3, 0)
WANTED_GPUS: Final = (0, 0, 0, GPUS)


class Cluster:
    """`faults` counts what was done to it, `seen` what came of that, `troubles` what went wrong.
    `only_disconnects`: workers are frozen and cut off and nothing else happens to anybody, so that
    leases really run out; a coordinator that comes back gives each of them a new term.
    `only_crowds`: of every second job no two tasks fit on one worker, and people keep taking away
    what runs."""

    wild_ms = WILD_MS
    start = EPOCH

    def __init__(
        self,
        seed: int,
        *,
        workers: int = 3,
        jobs: int = 4,
        only_disconnects: bool = False,
        only_crowds: bool = False,
    ) -> None:
        self.dice = Random(seed)
        self.clock = ManualClock(self.start)
        self.faults: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.troubles: list[str] = []
        # Two of three have so few tasks to a round that nearly every round is cut.
        most_picks = CUT_AFTER[seed % len(CUT_AFTER)]
        self.service = Service(
            self.clock, SeededDice(seed), term_ms=TERM_MS, most_picks=most_picks
        )
        self.wanted: dict[str, tuple[bytes, ...]] = {}
        self.acknowledged: dict[str, JobId] = {}
        self._is_wild = True
        self._only_disconnects = only_disconnects
        self._only_crowds = only_crowds
        self._heap: list[tuple[int, int, Action]] = []
        self._wakes: dict[object, int] = {}
        self._count = 0
        self._spins = 0
        self._checked = 0
        self._meddled: set[tuple[JobId, Index]] = set()
        self.members = [self.hire(f"w{n}", 1, self.dice.randint(1, 3)) for n in range(workers)]
        for member in self.members:
            self.after(0, member.poll)
        for number in range(jobs):
            after = self.dice.randrange(self.wild_ms // 2)
            self.after(after, partial(self._submit, f"key{number}"))
        self.after(self.dice.randrange(2_000), self._strike)

    def hire(self, name: str, incarnation: int, slots: int) -> Member:
        return Member(self, name, incarnation, slots)

    # --- time -----------------------------------------------------------------------------------

    def at(self, instant: int, action: Action) -> None:
        self._count += 1
        heappush(self._heap, (max(instant, self.clock.now()), self._count, action))

    def wake(self, sleeper: object, instant: int, action: Action) -> None:
        """Like `at`, for one who sleeps until the earliest of all the times it was given."""
        pending = self._wakes.get(sleeper, 0)
        if self.clock.now() < pending <= instant:
            return
        self._wakes[sleeper] = max(instant, self.clock.now())
        self.at(instant, action)

    def after(self, ms: int, action: Action) -> None:
        self.at(self.clock.now() + ms, action)

    def run(self) -> None:
        """The wild time, then a calm one in which everything must come to its end. How long that
        takes is a matter of how much there is: what counts is that it goes on."""
        wild_until = look_at = self.clock.now() + self.wild_ms
        left: int | None = None
        while self._heap:
            self._step(wild_until)
            if not self._is_wild and self._is_settled():
                break
            if self.clock.now() > look_at:
                before, left = left, len(self.unsettled())
                if before is not None and left >= before:
                    self.troubles.append(f"still unsettled: {self.unsettled()}")
                    break
                look_at = self.clock.now() + CALM_MS
        self.judge()

    def pass_until(self, end: int) -> None:
        """Let time pass, and nothing else."""
        while self._heap and self._heap[0][0] <= end:
            self._step(0)

    def _step(self, wild_until: int) -> None:
        instant, _, action = heappop(self._heap)
        self.clock.advance_to(instant)
        self._is_wild = self.clock.now() < wild_until
        action()
        self._turn()

    def _turn(self) -> None:
        if self.service.turn():
            slow = self._is_wild and self.dice.random() < 0.02
            delay = self.dice.randrange(4_000 if slow else 60)
            self.after(delay, partial(self._sync, self.epoch))
        if self.service.coordinator.state.position != self._checked:
            self._checked = self.service.coordinator.state.position
            self.service.check()
        due = self.service.next_due()
        self._spins = self._spins + 1 if due and due <= self.clock.now() else 0
        if self._spins > IDLE_SPINS_MAX:
            self.troubles.append("the coordinator is always due and never done")
            self._heap.clear()
        elif due:
            self.wake(self.service, due, _nothing)
        if self.service.troubles:
            self.troubles += self.service.troubles
            self._heap.clear()

    @property
    def epoch(self) -> int:
        return self.service.log.epoch

    def _sync(self, epoch: int) -> None:
        if epoch == self.epoch and self.service.writing:
            self.service.synced()

    # --- the network ----------------------------------------------------------------------------

    def carry(self, message: Action) -> None:
        """Bring a message to the other side: perhaps late, perhaps twice, perhaps never."""
        chance = self.dice.random() if self._is_wild else 1.0
        if chance < 0.08:
            self.faults["dropped"] += 1
            return
        if chance < 0.16:
            self.faults["doubled"] += 1
            self.after(self.dice.randrange(3_000), message)
        delay = self.dice.randrange(20)
        if 0.16 <= chance < 0.3:
            self.faults["delayed"] += 1
            delay = self.dice.randrange(5_000)
        self.after(delay, message)

    def deliver(self, member: Member, exchange: Exchange) -> None:
        if member.is_cut_off:
            return

        def send(reply: Reply) -> None:
            self.carry(partial(member.receive, reply))

        self.service.exchanges.take(exchange, send)

    # --- what users do --------------------------------------------------------------------------

    def _submit(self, key: str) -> None:
        """Ask until told yes. The key makes a second asking harmless."""
        if key in self.acknowledged:
            return
        self.service.ask(self.wish(key), partial(self.told, key))
        self.after(ASK_AGAIN_MS, partial(self._submit, key))

    def wish(self, key: str) -> c.SubmitJob:
        """What is submitted under this key, however often it is asked for."""
        if key not in self.wanted:
            count = self.dice.choice((1, 5, 20))
            self.wanted[key] = tuple(f"{key}:{n}".encode() for n in range(count))
        return c.SubmitJob(
            spec=_spec(int(key[-1]) % (2 if self._only_crowds else 4)),
            key=key,
            digest=key.encode(),
            items=self.wanted[key],
            sealed=True,
        )

    def told(self, key: str, decision: Decision) -> None:
        if isinstance(decision, Accepted):
            self.acknowledged[key] = JobId(str(decision.answer))

    def _meddle(self) -> None:
        if not self.acknowledged:
            return
        job_id = self.dice.choice(sorted(self.acknowledged.values()))
        count = self.service.coordinator.state.jobs[job_id].count
        index = Index(self.dice.randrange(count))
        moved = c.RescheduleTask(job_id=job_id, index=index, delay_ms=self.dice.randrange(9_000))
        killed = c.KillTasks(job_id=job_id, indices=(index,))
        command = self.dice.choice((moved, moved, killed, c.RetryTasks(job_id=job_id)))
        self.service.do(command)
        if isinstance(command, c.KillTasks):
            self._meddled.add((job_id, index))
        self.faults[type(command).__name__] += 1

    def _take_away(self) -> None:
        """Somebody does not want a task any more that is under way."""
        holders = self.service.coordinator.state.holders.values()
        running = [task for holder in holders for task in holder.leases.values()]
        if running:
            task = self.dice.choice(running)
            self.service.do(c.KillTasks(job_id=task.job_id, indices=(task.index,)))
            self._meddled.add((task.job_id, task.index))
            self.faults["taken away"] += 1

    # --- what goes wrong ------------------------------------------------------------------------

    def _strike(self) -> None:
        if not self._is_wild:
            return
        self.dice.choice(self.blows())()
        self.after(self.dice.randrange(1, 1_000 if self._only_crowds else 4_000), self._strike)

    def blows(self) -> list[Action]:
        """What may happen to anybody at any time."""
        blows: list[Action] = [self._freeze, self._cut_off]
        if self._only_crowds:
            blows += [self._lose_power] + 8 * [self._take_away]
        elif not self._only_disconnects:
            blows += [self._lose_power, self._kill, self._drain, self._meddle]
        return blows

    def _lose_power(self) -> None:
        survives = self.service.writing and self.dice.random() < 0.5
        self.faults["power lost, frame kept" if survives else "power lost"] += 1
        self.service.crash(frame_survives=survives, by_snapshot=self.dice.random() < 0.3)
        self.clock.advance(self.dice.choice((0, 100, 2 * TERM_MS)))

    def _kill(self) -> None:
        self.faults["worker killed"] += 1
        place = self.dice.randrange(len(self.members))
        self._replace(place)

    def _drain(self) -> None:
        self.faults["worker drained"] += 1
        place = self.dice.randrange(len(self.members))
        self.members[place].leave()
        self.after(TERM_MS, partial(self._replace_if, self.members[place], place))

    def _replace_if(self, member: Member, place: int) -> None:
        if self.members[place] is member:
            self._replace(place)

    def _replace(self, place: int) -> None:
        old = self.members[place]
        old.is_alive = False
        new = self.hire(old.name, old.incarnation + 1, old.executor.slots)
        self.members[place] = new
        self.after(self.dice.choice((0, 500, 2 * TERM_MS)), new.poll)
        self._look_at(old)

    def _cut_off(self) -> None:
        self.faults["worker cut off"] += 1
        self.dice.choice(self.members).cut_off_for(self.dice.choice((1_000, 2 * TERM_MS)))

    def _freeze(self) -> None:
        self.faults["worker frozen"] += 1
        self.dice.choice(self.members).freeze_for(self.dice.choice((1_000, 3 * TERM_MS)))

    def look_at_what_runs(self, member: Member) -> None:
        """All of it together never takes more than there is. And what must not outlive its lease
        never runs in two places, unless a person took it away from the first."""
        if member.has_too_much():
            self.troubles.append(f"{member.name} runs {member.executor.in_use()} at once")
        self.seen["lingering"] += bool(member.executor.lingering())
        here = member.bound_tasks()
        for other in self.members if here else ():
            if other is member or not other.is_alive or other.is_frozen:
                continue
            both = (here & other.bound_tasks()) - self._meddled
            if both:
                self.troubles.append(f"{member.name} and {other.name} both run {sorted(both)}")

    # --- judging --------------------------------------------------------------------------------

    def _is_settled(self) -> bool:
        # What ended it all must be in the log as well: that is where it is judged.
        is_written = self.service.log.durable == self.service.coordinator.state.position
        return len(self.acknowledged) == len(self.wanted) and not self.unsettled() and is_written

    def unsettled(self) -> list[str]:
        jobs = self.service.coordinator.state.jobs
        return [job_id for job_id in self.acknowledged.values() if not is_finished(jobs[job_id])]

    def _look_at(self, member: Member) -> None:
        twice = [lease for lease, times in member.executor.ran.items() if times > 1]
        if twice:
            self.troubles.append(f"{member.name}:{member.incarnation} ran leases {twice} twice")

    def judge(self) -> None:
        """From the log alone: every commit once, and right."""
        for member in self.members:
            self._look_at(member)
        keys = {job_id: key for key, job_id in self.acknowledged.items()}
        if len(keys) != len(self.acknowledged):
            self.troubles.append(f"two keys share a job: {self.acknowledged}")
        crossed: Counter[tuple[str, int]] = Counter()
        for record in self.service.records():
            for event in record.events:
                if isinstance(event, e.WithEnds):
                    self.seen.update(end.reason for end in event.ends)
                elif isinstance(event, e.LeasesRearmed | e.LeasesExtended):
                    self.seen[type(event).__name__] += 1
                elif isinstance(event, e.TasksCompleted):
                    for commit in event.commits:
                        crossed[event.job_id, commit.index] += 1
                        payload = self.payload_of(keys, event.job_id, commit.index)
                        if commit.result != answer_to(payload):
                            self.troubles.append(f"{event.job_id}/{commit.index} is wrong")
        twice = [task for task, times in crossed.items() if times > 1]
        if twice:
            self.troubles.append(f"committed twice: {twice}")

    def payload_of(self, keys: dict[JobId, str], job_id: JobId, index: Index) -> bytes:
        """What a task was given. `keys`: under which key each job was asked for."""
        return self.wanted[keys[job_id]][index]


def _spec(number: int) -> JobSpec:
    """Every second job must not outlive its leases; some take so much that two do not fit, and
    some are guarded against storms."""
    retry = RetryPolicy(kind="fixed", delay_ms=500, jitter=0.5)
    return JobSpec(
        name="work", kind="function", target="work", retries=3, max_losses=1_000, retry=retry,
        on_disconnect="" if number % 2 else STOP, memory_bytes=WANTED_MEMORY[number],
        gpus=WANTED_GPUS[number], circuit=CircuitPolicy(*((2, 3_000) if number > 1 else ())),
        retry_budget=RetryBudget(*((2, 10_000) if number > 2 else ())),
    )  # fmt: skip


def _nothing() -> None:
    """Only a turn of the coordinator is wanted."""

"""Clients: they ask, wait, ask again where they do not know, and write down what they were told.

What they wrote is all that the oracle knows of the cluster.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from holdfast.core import commands as c
from holdfast.core import commands_decided as d
from holdfast.core.errors import OperatingError
from holdfast.core.ids import Index, JobId, WorkerId
from holdfast.core.placing import Placing
from holdfast.core.spec import NO_LIMIT, STOP, CircuitPolicy, JobSpec, RetryBudget, RetryPolicy
from holdfast.testing.sim.agenda import Agenda
from holdfast.testing.sim.machines import Process
from holdfast.testing.sim.network import Network
from holdfast.testing.sim.plan import Scenario
from holdfast.testing.sim.server import Asked, Told

ANSWER_S: Final = 10.0
LOOK, LOOK_AT = "look", "look_at"
APPLY, DELETE, SCHEDULE = "apply", "delete", "schedule"
GANGS: Final = 0.4
"""The share of gangs among the jobs of a client that knows of them."""
URGENT: Final = 0.3
"""And of those that others make room for."""
TARGETS: Final = ("WAITING", "QUARANTINED", "KILLED", "UNSCHEDULABLE")
"""Where a task may be forced to, as far as the invariants allow."""


class Op(Struct):
    """One thing a client wanted. `invoked` and `answered` are true microseconds; `since` is how
    much of the log was durable when it was asked, and `until` when it was told. `told` is None for
    as long as it does not know, which may be for ever."""

    key: str
    kind: str
    subject: str
    invoked: int
    since: int
    command: c.Command | None = None
    asked: int = 0
    answered: int = 0
    until: int = 0
    told: Told | None = None


class Client:
    """`durable` says how much of the log is safe at this moment: only the judge may know."""

    def __init__(
        self,
        scenario: Scenario,
        process: Process,
        number: int,
        network: Network,
        history: list[Op],
        agenda: Agenda,
        durable: Callable[[], int],
        told: Callable[[Op], None],
    ) -> None:
        self.number = number
        self.jobs: dict[JobId, int] = {}
        self.submitted: list[c.SubmitJob] = []
        self.is_calm = False
        self.is_over = False
        self.process = process
        self._scenario = scenario
        self._network = network
        self._history = history
        self._agenda = agenda
        self._durable = durable
        self._told = told
        self._dice = Random(f"{scenario.seed}:client:{number}")
        # Of its own: what else a seed stands for moves none of the throws above.
        self._more = Random(f"{scenario.seed}:more:{number}")
        self._asked = 0
        process.post(lambda: process.create_task(self._live()))

    async def _live(self) -> None:
        """As many jobs as there shall be, with other wishes in between, spread over the time."""
        share = -(-self._scenario.jobs // self._scenario.clients)
        mean_s = self._scenario.wild_ms / 1_000 / (6 * share)
        for number in range(share):
            await self._submit(number)
            for _ in range(self._dice.randrange(8)):
                await self._sleep(self._dice.expovariate(1 / mean_s))
                if not self.is_calm:
                    await self._wish()
                if self.submitted and self._dice.random() < 0.2:
                    await self._submit_again()
                await self._look()
        self.is_over = True

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.5 if self.is_calm else 60.0))

    async def _submit(self, number: int) -> None:
        count = self._dice.choice((1, 1, 3, 8, 20))
        key = f"c{self.number}j{number}"
        items = tuple(f"{key}:{n}".encode() for n in range(count))
        is_fed = self._dice.random() < 0.3 and count > 1
        first = items[: count // 2] if is_fed else items
        spec = a_spec(self._dice)
        if self._scenario.gangs and self._more.random() < GANGS:
            spec, items, is_fed = a_gang(spec), items[: self._scenario.gangs], False
            count, first = len(items), items
        if self._scenario.preempts and self._more.random() < URGENT:
            spec = an_urgent(spec)
        command = c.SubmitJob(
            spec=spec, key=key, digest=key.encode(), items=first,
            sealed=not is_fed,
        )  # fmt: skip
        told = await self._ask("submit", key, command)
        if told.code or not told.answer:
            return
        job_id = JobId(told.answer)
        self.jobs[job_id] = count
        self.submitted.append(command)
        if is_fed:
            rest = items[len(first) :]
            added = c.AddTasks(job_id=job_id, first=len(first), items=rest, digest=key.encode())
            await self._ask("add", job_id, added)
            await self._ask("seal", job_id, c.SealJob(job_id=job_id, count=count))

    async def _submit_again(self) -> None:
        """As a program that was started anew and does not know that it submitted this already: by
        another request, under the same key; and as one that takes a key that was taken."""
        command = self._dice.choice(self.submitted)
        if self._dice.random() < 0.3:
            other = structs.replace(command, items=(b"other",), digest=b"other")
            await self._ask("submit_other", command.key, other)
        else:
            await self._ask("submit_again", command.key, command)

    async def _wish(self) -> None:
        """Something a person might want."""
        if not self.jobs:
            return
        job_id = self._dice.choice(list(self.jobs))
        index = Index(self._dice.randrange(self.jobs[job_id]))
        worker = WorkerId(f"w{self._dice.randrange(self._scenario.workers)}")
        which: dict[str, Any] = {"job_id": job_id, "indices": (index,)}
        one: dict[str, Any] = {"job_id": job_id, "index": index}
        wishes: list[tuple[str, str, c.Command]] = [
            ("kill_tasks", job_id, c.KillTasks(**which)),
            ("retry", job_id, c.RetryTasks(job_id=job_id)),
            ("retry", job_id, c.RetryTasks(job_id=job_id)),
            ("reschedule", job_id, c.RescheduleTask(
                **one, delay_ms=self._dice.randrange(9_000))),
            ("set_aside", job_id, d.SetAside(**which, note="looked at")),
            ("purge", job_id, d.PurgeTasks(**which, reason="given up")),
            ("force", job_id, d.ForceTask(
                **one, target=self._dice.choice(TARGETS), reason="looked at")),
        ]  # fmt: skip
        if self._dice.random() < 0.05:
            wishes = [("kill_job", job_id, c.KillJob(job_id=job_id, reason="no more"))]
        elif self._dice.random() < 0.2:
            wishes = [
                ("cordon", worker, c.CordonWorker(worker=worker, reason="looked at")),
                ("pause", "default", c.PauseQueue(queue="default", reason="looked at")),
            ]
        kind, subject, command = self._dice.choice(wishes)
        await self._ask(kind, subject, command)
        if kind in ("cordon", "pause"):
            await self._sleep(self._dice.random() * 5)
            back: c.Command = c.UncordonWorker(worker=worker)
            if kind == "pause":
                back = c.ResumeQueue(queue="default")
            await self._ask(f"un{kind}", subject, back)

    async def _look(self) -> None:
        if self.jobs:
            job_id = self._dice.choice(list(self.jobs))
            await self._ask(LOOK, job_id, None)

    async def _ask(self, kind: str, subject: str, command: c.Command | None) -> Told:
        asked = Asked("", look=JobId(subject) if command is None else JobId(""))
        return await self._ask_with(kind, subject, command, asked)

    async def _ask_with(
        self, kind: str, subject: str, command: c.Command | None, asked: Asked
    ) -> Told:
        """Ask until told. A look that was not answered is a new look; a wish keeps its key."""
        self._asked += 1
        key = f"c{self.number}.{self._asked}"
        digest = msgspec.msgpack.encode((kind, subject, self._asked))
        if command is not None:
            command = structs.replace(command, request_key=key, request_digest=digest)
        asked = structs.replace(asked, key=key, digest=digest, command=command)
        op = Op(key, kind, subject, self._agenda.now_us, self._durable(), command)
        self._history.append(op)
        pause = 0.05
        while True:
            op.asked += 1
            if command is None and asked.order is None:
                op.invoked, op.since = self._agenda.now_us, self._durable()
            try:
                told: Any = await self._network.call(self.process, asked, ANSWER_S)
            except OperatingError:
                await self._sleep(self._dice.uniform(0, pause))
                pause = min(2 * pause, 5.0)
                continue
            op.answered, op.until, op.told = self._agenda.now_us, self._durable(), told
            self._told(op)
            return op.told or Told()


def a_gang(spec: JobSpec) -> JobSpec:
    """The same, whose tasks run all at once or not at all."""
    return structs.replace(
        spec, placing=Placing(gang=True), max_parallel=0, circuit=CircuitPolicy(),
        retry_budget=RetryBudget(),
    )  # fmt: skip


def an_urgent(spec: JobSpec) -> JobSpec:
    """The same, for which others make room."""
    placing = structs.replace(spec.placing, preempts=True)
    return structs.replace(spec, placing=placing, priority=5)


def a_spec(dice: Random) -> JobSpec:
    """Some must not outlive their leases, some fail for good, some are guarded against storms."""
    retry = RetryPolicy(kind="fixed", delay_ms=dice.choice((0, 500)), jitter=0.5)
    return JobSpec(
        name="work", kind="function", target="work",
        retries=dice.choice((0, 1, 3)), max_losses=dice.choice((1, 10, 1_000)), retry=retry,
        on_disconnect=dice.choice(("", STOP)), priority=dice.choice((0, 0, 3)),
        max_parallel=dice.choice((0, 0, 2)), max_failed_tasks=dice.choice((NO_LIMIT, NO_LIMIT, 0)),
        schedule_timeout_ms=dice.choice((0, 0, 0, 5_000)), timeout_ms=dice.choice((0, 0, 3_000)),
        circuit=CircuitPolicy(*dice.choice(((), (), (2, 3_000)))),
        retry_budget=RetryBudget(*dice.choice(((), (), (2, 10_000)))),
    )  # fmt: skip

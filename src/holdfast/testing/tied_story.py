"""A story with every tie there is, told to a coordinator until nothing more can happen.

Jobs that come after others, parents with children, gangs that hold and that fall, and something
urgent that takes the place of what runs. Whoever tells it goes on from wherever the coordinator
stands, so that a story cut short anywhere and told again comes to the same end.
"""

from typing import Any, Final

from holdfast.coordinator.coordinator import Coordinator
from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.job import Job, is_finished, job_reason, job_state
from holdfast.core.placing import After, Placing
from holdfast.core.ready import take
from holdfast.core.reports import Done, Failed, Started
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.core.task import Task
from holdfast.testing.world import in_line

WORKER: Final = WorkerId("w")
PATIENCE: Final = RetryPolicy(kind="none")
PLAIN: Final = JobSpec(name="n", kind="k", target="good", retry=PATIENCE)
BAD: Final = JobSpec(name="n", kind="k", target="bad", retries=1, retry=PATIENCE)
IDLE: Final = JobSpec(name="n", kind="k", target="idle")
"""Runs until something else ends it."""
GANG: Final = JobSpec(name="n", kind="k", target="good", placing=Placing(gang=True))
TORN: Final = JobSpec(
    name="n", kind="k", target="first time bad", retries=1, retry=PATIENCE,
    placing=Placing(gang=True),
)  # fmt: skip
LOST: Final = JobSpec(
    name="n", kind="k", target="bad", retry=PATIENCE, placing=Placing(gang=True)
)
LOW: Final = JobSpec(name="n", kind="k", target="room for urgent", retry=PATIENCE)
URGENT: Final = JobSpec(
    name="n", kind="k", target="good", priority=5, placing=Placing(preempts=True)
)


def _after(*names: str, condition: str = "success", index: int = -1) -> tuple[After, ...]:
    return tuple(After(JobId(name), index, condition) for name in names)


def _job(name: str, count: int, spec: JobSpec, **ties: Any) -> c.SubmitJob:
    return c.SubmitJob(job_id=JobId(name), spec=spec, count=count, **ties)


FIRST: Final = (
    _job("extract", 2, PLAIN),
    _job("transform", 3, PLAIN, after=_after("extract")),
    _job("report", 1, PLAIN, after=(*_after("transform"), *_after("extract", index=0))),
    _job("bad", 1, BAD),
    _job("on failure", 1, PLAIN, after=_after("bad", condition="failure")),
    _job("never", 2, PLAIN, after=_after("bad")),
    _job("patient", 1, PLAIN, after=_after("bad"), fate="wait"),
    _job("at the end", 1, PLAIN, after=_after("never", condition="finish")),
    _job("parent", 1, PLAIN),
    _job("child", 2, IDLE, parent=JobId("parent")),
    _job("grandchild", 1, IDLE, parent=JobId("child")),
    _job("grown up", 1, PLAIN, parent=JobId("parent"), detached=True),
    _job("boss", 1, IDLE),
    _job("minion", 2, IDLE, parent=JobId("boss")),
    _job("gang", 3, GANG),
    _job("torn", 3, TORN),
    _job("lost", 2, LOST),
    _job("low", 2, LOW),
    _job("urgent", 1, URGENT),
)
SECOND: Final = (
    _job("late", 1, PLAIN, after=_after("report", "gang")),
    _job("too late", 1, PLAIN, after=_after("lost")),
)

ENDS: Final = {
    **dict.fromkeys(
        ("extract", "transform", "report", "on failure", "at the end", "parent", "grown up", "gang",
         "torn", "low", "urgent", "late"),
        ("SUCCEEDED", ""),
    ),
    "bad": ("FAILED", "quarantined"),
    "never": ("FAILED", "dependency_failed"),
    "patient": ("PENDING", ""),
    "child": ("FAILED", "parent_ended"),
    "grandchild": ("FAILED", "parent_ended"),
    "boss": ("KILLED", "cancelled"),
    "minion": ("KILLED", "cancelled"),
    "lost": ("FAILED", "gang_failed"),
    "too late": ("FAILED", "dependency_failed"),
}  # fmt: skip
"""What becomes of each job, however often the story was cut short."""


def tell(coordinator: Coordinator) -> dict[str, tuple[str, str]]:
    """Tell the story from here to its end, and say what became of each job."""
    teller = _Teller(coordinator)
    for submits in (FIRST, SECOND):
        for submit in submits:
            if submit.job_id not in coordinator.state.jobs:
                teller.do(submit)
        while teller.step():
            pass
    jobs = coordinator.state.jobs
    return {job_id: (job_state(job), job_reason(job)) for job_id, job in jobs.items()}


class _Teller:
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._jobs = coordinator.state.jobs

    def do(self, command: c.Command) -> None:
        self._coordinator.execute(command, actor="teller")

    def step(self) -> bool:
        """One thing more, or False where nothing is left to do."""
        return self._lease() or self._make_room() or self._end() or self._cancel()

    def _lease(self) -> bool:
        state, now = self._coordinator.state, self._coordinator.now()
        state.ready.wake(self._jobs, now)
        urgent = self._jobs[JobId("urgent")]
        for job in in_line(state, now):
            if job is urgent and not is_finished(self._jobs[JobId("low")]):
                continue
            if job.spec.placing.gang:
                members = tuple(
                    c.Member(Index(index), WORKER, 1, self._slot(job) + index, 0)
                    for index in range(job.count)
                )
                self.do(c.GrantGang(job_id=job.job_id, members=members))
            else:
                indices = tuple(take(job, now, 1))
                slot = self._slot(job) + indices[0]
                self.do(
                    c.GrantLeases(
                        job_id=job.job_id, worker=WORKER, incarnation=1, slot=slot,
                        indices=indices, term_ms=0,
                    )
                )  # fmt: skip
            return True
        return False

    def _slot(self, job: Job) -> int:
        return 10 * list(self._jobs).index(job.job_id)

    def _make_room(self) -> bool:
        """What is urgent waits until what is not was moved out of its way."""
        low, urgent = self._jobs[JobId("low")], self._jobs[JobId("urgent")]
        if is_finished(urgent) or urgent.active or not low.active:
            return False
        leases = tuple(task.lease_id for task in (low.tasks or {}).values() if task.lease_id)
        self.do(c.PreemptAttempts(leases=leases, reason="for job urgent", by=urgent.job_id))
        indices = tuple(take(urgent, self._coordinator.now(), 1))
        self.do(
            c.GrantLeases(
                job_id=urgent.job_id, worker=WORKER, incarnation=1, slot=0, indices=indices,
                term_ms=0,
            )
        )  # fmt: skip
        return True

    def _end(self) -> bool:
        for job in list(self._jobs.values()):
            held = [task for task in (job.tasks or {}).values() if task.lease_id]
            if not held or job.spec.target == "idle":
                continue
            if job.spec.target == "room for urgent" and not is_finished(
                self._jobs[JobId("urgent")]
            ):
                continue
            self._run(job, held)
            return True
        return False

    def _run(self, job: Job, held: list[Task]) -> None:
        task = held[-1]
        name = (job.job_id, task.index, LeaseId(task.lease_id))
        if not task.started_at:
            started = (Started(*name, 0),)
            self.do(c.StartAttempts(worker=WORKER, incarnation=1, started=started))
        is_bad = job.spec.target == "bad"
        if is_bad or (job.spec.target == "first time bad" and task.attempt == 1):
            failed = Failed(*name, 0, "failed", "boom", "", 1)
            self.do(c.FailAttempt(worker=WORKER, incarnation=1, failed=failed, roll=0.0))
        elif job.spec.placing.gang:
            members = tuple(
                c.Finished(WORKER, 1, Done(t.job_id, t.index, t.lease_id, 0, b"r")) for t in held
            )
            self.do(c.CommitGang(job_id=job.job_id, members=members))
        else:
            done = (Done(*name, 0, b"r"),)
            self.do(c.CommitTasks(worker=WORKER, incarnation=1, done=done))

    def _cancel(self) -> bool:
        boss = self._jobs[JobId("boss")]
        if is_finished(boss):
            return False
        self.do(c.KillJob(job_id=boss.job_id, reason="enough"))
        return True

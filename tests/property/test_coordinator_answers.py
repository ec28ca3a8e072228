"""Whatever is asked, synced and lost in whatever order: what was answered is there afterwards."""

from functools import partial

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision, Refused
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.job import state_of
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Done

SPEC = JobSpec(name="work", kind="function", target="work", max_losses=1_000)
KEYS = st.sampled_from("abc")


class Answers(RuleBasedStateMachine):
    """A coordinator whose every answer is written down, and whose power may go at any moment."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.service = Service(self.clock, SeededDice(1))
        self.worker = Post(self.service)
        self.jobs: dict[str, str] = {}
        self.killed: set[str] = set()
        self.committed: set[tuple[JobId, Index]] = set()
        self.heard = 0

    @rule(key=KEYS, body=st.sampled_from((b"one", b"two")))
    def submit(self, key: str, body: bytes) -> None:
        command = c.SubmitJob(spec=SPEC, key=key, digest=body, items=(body, body))
        self.service.ask(command, partial(self._submitted, key))

    def _submitted(self, key: str, decision: Decision) -> None:
        if isinstance(decision, Accepted):
            assert self.jobs.setdefault(key, str(decision.answer)) == decision.answer
        else:
            assert isinstance(decision, Refused)
            assert decision.code == "key_reused"

    @rule(job=st.integers(1, 3))
    def cancel(self, job: int) -> None:
        job_id = JobId(str(job))
        self.service.ask(c.KillJob(job_id=job_id), partial(self._cancelled, str(job)))

    def _cancelled(self, job: str, decision: Decision) -> None:
        if isinstance(decision, Accepted) and decision.answer:
            self.killed.add(job)

    @rule()
    def work(self) -> None:
        """The worker reports everything it was given as done, and asks for more."""
        news = self.worker.replies[self.heard :]
        self.heard = len(self.worker.replies)
        done = tuple(
            Done(run.job_id, item.index, LeaseId(item.lease_id), 1, item.payload)
            for reply in news
            for run in reply.runs
            for item in run.items
        )
        before = len(self.worker.replies)
        self.worker.say(slots=2, done=done)
        assert len(self.worker.replies) == before, "an answer left at once"

    @rule()
    def turn(self) -> None:
        self.service.turn()

    @rule()
    def sync(self) -> None:
        if self.service.writing:
            self.service.synced()

    @rule(ms=st.sampled_from((1, 1_000, 100_000)))
    def wait(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule(survives=st.booleans(), by_snapshot=st.booleans())
    def lose_power(self, survives: bool, by_snapshot: bool) -> None:
        self.service.crash(frame_survives=survives, by_snapshot=by_snapshot)
        # Workers inside the program die with it.
        self.worker = Post(self.service, incarnation=self.service.log.epoch)
        self.heard = 0

    @invariant()
    def what_was_answered_is_durable(self) -> None:
        durable = self.service.records()
        submitted = {
            event.key: event.job_id
            for record in durable
            for event in record.events
            if isinstance(event, e.JobSubmitted)
        }
        assert self.jobs.items() <= submitted.items()
        cancelled = {
            event.job_id
            for record in durable
            for event in record.events
            if isinstance(event, e.JobCancelled)
        }
        assert self.killed <= cancelled

    @invariant()
    def what_the_worker_was_given_is_durable(self) -> None:
        granted = {
            event.first_lease + place
            for record in self.service.records()
            for event in record.events
            if isinstance(event, e.LeasesGranted)
            for place in range(len(event.indices))
        }
        for reply in self.worker.replies:
            assert {item.lease_id for run in reply.runs for item in run.items} <= granted

    @invariant()
    def the_state_and_the_history_are_sound(self) -> None:
        self.service.check()
        assert self.service.troubles == []

    @invariant()
    def what_is_done_stays_done(self) -> None:
        jobs = self.service.coordinator.state.jobs
        for record in self.service.records():
            for event in record.events:
                if isinstance(event, e.TasksCompleted):
                    self.committed.update((event.job_id, x.index) for x in event.commits)
        assert all(
            state_of(jobs[job_id], index) is TaskState.SUCCEEDED
            for job_id, index in self.committed
        )


TestAnswers = Answers.TestCase
TestAnswers.settings = settings(max_examples=15, stateful_step_count=25)

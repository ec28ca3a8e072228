"""Folding a record: what is kept of it, and how little of that."""

from holdfast.core import commands as c
from holdfast.core.apply import apply
from holdfast.core.decide import decide
from holdfast.core.decision import Accepted
from holdfast.core.ids import Instant, JobId, Position
from holdfast.core.record import Record
from holdfast.core.spec import JobSpec
from holdfast.testing.world import World


def test_jobs_of_one_moment_share_the_instant_they_came_at() -> None:
    state, spec = World().state, JobSpec(name="n", kind="function", target="m:f")
    for number in (1, 2):
        command = c.SubmitJob(job_id=JobId(f"j{number}"), spec=spec, items=(b"",))
        # Every record that is read back has an instant of its own.
        now = Instant(int("1700000000000"))
        decision = decide(state, command, now)
        assert isinstance(decision, Accepted)
        record = Record(now, "SubmitJob", "test", "", "", decision.events)
        apply(state, record, Position(state.position + 1))
    first, second = (state.jobs[JobId(f"j{number}")] for number in (1, 2))
    assert first.created_at is second.created_at

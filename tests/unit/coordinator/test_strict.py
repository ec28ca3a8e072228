"""Strict callers: a repeat is an error that changes nothing. Everybody else is answered again."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from holdfast.coordinator.refusing import CALLERS, REPORTS
from holdfast.core import commands as c
from holdfast.core.commands import COMMAND_TYPES
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.reports import Done, Started
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.service import Service
from holdfast.testing.world import PLAIN

JOB = JobId("j")
SUBMIT = c.SubmitJob(spec=PLAIN, job_id=JOB, key="k", digest=b"d", items=(b"",))
WORKER = WorkerId("w")
GRANT = c.GrantLeases(
    job_id=JOB, worker=WORKER, incarnation=1, slot=0, indices=(Index(0),), term_ms=0, alone=False
)
START = c.StartAttempts(
    worker=WORKER, incarnation=1, started=(Started(JOB, Index(0), LeaseId(1), 0),)
)
COMMIT = c.CommitTasks(
    worker=WORKER, incarnation=1, done=(Done(JOB, Index(0), LeaseId(1), 0, b"", (), None),)
)
Tell = Callable[..., object]


@pytest.fixture
def service() -> Service:
    return Service(ManualClock(), SeededDice(1))


@pytest.fixture
def tell(service: Service) -> Tell:
    return lambda command, **rest: service.coordinator.execute(command, actor="ann", **rest)


REPEATS = {
    "a submit with a known key": ((), SUBMIT),
    "a cancel of what is cancelled": ((c.KillJob(job_id=JOB, reason="no"),), None),
    "a cancel of a task that has ended": (
        (c.KillTasks(job_id=JOB, indices=(Index(0),), reason="no"),), None,
    ),
    "a retry where nothing can come back": ((), c.RetryTasks(job_id=JOB)),
    "a seal of what is sealed": ((), c.SealJob(job_id=JOB, count=1)),
    "a start under the same lease": ((GRANT, START), START),
    "a completion under the same lease": ((GRANT, START, COMMIT), COMMIT),
    "a pause of what is paused": ((c.PauseQueue(queue="q", reason=""),), None),
}  # fmt: skip


@pytest.mark.parametrize("name", REPEATS)
def test_resolution_001_05_strict_makes_a_repeat_an_error_that_changes_nothing(
    service, tell, name
):
    before, again = REPEATS[name]
    for command in (SUBMIT, *before):
        assert isinstance(tell(command), Accepted)
    repeat = again or before[-1]
    prints = service.coordinator.state.position, attempts(service)
    assert isinstance(tell(repeat), Accepted), "whoever is not strict is answered as before"
    no = tell(repeat, strict=True)
    assert isinstance(no, Refused)
    assert no.code is Reason.REPEATED
    assert (service.coordinator.state.position, attempts(service)) == prints


def attempts(service: Service) -> int:
    task = (service.coordinator.state.jobs[JOB].tasks or {}).get(Index(0))
    return 0 if task is None else task.attempt


def test_a_strict_server_is_strict_to_callers_and_not_to_workers(service, tell):
    service.coordinator.refusing.strict = True
    for command in (SUBMIT, GRANT, START, COMMIT):
        assert isinstance(tell(command), Accepted)
    assert isinstance(tell(SUBMIT), Refused)
    assert isinstance(tell(START), Accepted)
    assert isinstance(tell(COMMIT), Accepted)


def test_the_same_request_heard_again_is_answered_again_however_strict(service, tell):
    keyed = replace(SUBMIT, request_key="token:1", request_digest=b"x")
    first = tell(keyed, strict=True)
    again = tell(keyed, strict=True)
    assert isinstance(first, Accepted)
    assert isinstance(again, Accepted)
    assert again.events == ()


def test_what_is_done_on_behalf_of_many_is_not_a_caller(service, tell):
    service.coordinator.refusing.strict = True
    assert isinstance(tell(SUBMIT), Accepted)
    assert isinstance(tell(SUBMIT, strict=False), Accepted)


def test_what_is_new_is_done_however_strict(tell):
    assert isinstance(tell(SUBMIT, strict=True), Accepted)
    assert isinstance(tell(c.KillJob(job_id=JOB, reason="no"), strict=True), Accepted)


def test_callers_and_reports_are_commands_and_no_command_is_both():
    assert set(COMMAND_TYPES) >= CALLERS | REPORTS
    assert not CALLERS & REPORTS

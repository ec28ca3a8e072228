"""Service jobs whole: a real coordinator, a real worker, real processes, and whatever ends them."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.coordinator.ports import SystemClock
from holdfast.core import commands as c
from holdfast.core.decision import Accepted
from holdfast.core.ids import NEVER, Index, JobId, LeaseId
from holdfast.core.job import JobState, job_state, state_of
from holdfast.core.spec import JobSpec, ServicePolicy
from holdfast.core.task import Task, TaskState
from holdfast.testing.clock import SeededDice
from holdfast.testing.service import Service
from holdfast.testing.service_stage import PYTHON, ServiceStage, monotonic_ms
from holdfast.wire.exchange import Reply
from holdfast.wire.service import ServicePlan, encode_plan

# Says its number to whoever connects.
TALK = """
import os, socket
line = socket.create_server(('127.0.0.1', int(os.environ['PORT'])))
while True:
    line.accept()[0].sendall(str(os.getpid()).encode())
"""
JOB = JobId("1")
POLICY = ServicePolicy(restarts=3, refill_ms=3_600_000, delay_ms=10, max_delay_ms=20)
SPEC = JobSpec(name="talk", kind="service", target="", cpus_milli=0, service=POLICY)


class Whole(ServiceStage):
    """The same agent, and a coordinator at its desk."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        self.service = Service(SystemClock(NEVER), SeededDice(1), term_ms=60_000)
        self._replies: list[Reply] = []

    def turn(self) -> None:
        while (exchange := self.agent.step(monotonic_ms())) is not None:
            self.service.exchanges.take(exchange, self._replies.append)
        self.service.settle()
        while self._replies:
            self.agent.receive(self._replies.pop(0), monotonic_ms())

    def has_orders(self) -> bool:
        """What waits for its time is given out when that has come, whether the agent stirs or
        not."""
        return 0 < self.service.next_due() <= self.service.clock.now()

    def serve(self, code: str, replicas: int = 1) -> None:
        payload = encode_plan(ServicePlan(argv=(PYTHON, "-uc", code), grace_ms=5_000))
        submit = c.SubmitJob(spec=SPEC, items=(payload,) * replicas, sealed=False)
        assert isinstance(self.service.do(submit), Accepted)

    def reached(self) -> dict[Index, str]:
        """Where each replica can be asked, by its endpoint."""
        found: dict[LeaseId, Task] = self.service.coordinator.state.endpoints.get("talk", {})
        return {task.index: task.endpoints[0].address for task in found.values()}

    def until_reached(self, *indices: int) -> list[int]:
        """Wait until exactly these can be asked; which processes they are."""
        self.until(lambda: sorted(self.reached()) == sorted(indices))
        found = []
        for index in sorted(self.reached()):
            self.addresses[LeaseId(0)] = self.reached()[index]
            found.append(int(self.ask(LeaseId(0))))
        return found

    def state(self, index: int = 0) -> TaskState:
        return state_of(self.service.coordinator.state.jobs[JOB], Index(index))

    def judged(self) -> list[str]:
        self.service.check()
        return self.service.troubles


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    whole = Whole(tmp_path / "here")
    yield whole
    whole.close()
    assert whole.folders() == []


@pytest.mark.slow
def test_a_replica_that_is_killed_is_begun_again_and_reached_under_its_new_address(
    whole: Whole,
) -> None:
    whole.serve(TALK, 2)
    first, second = whole.until_reached(0, 1)
    os.kill(first, signal.SIGKILL)
    whole.until(lambda: list(whole.reached()) == [Index(1)])
    again, same = whole.until_reached(0, 1)
    assert again != first
    assert same == second
    service = whole.service.coordinator.state.jobs[JOB].service
    assert service is not None
    assert {index: known.total for index, known in service.replicas.items()} == {0: 1}
    assert whole.judged() == []


@pytest.mark.slow
def test_a_coordinator_that_dies_finds_everything_up_and_starts_nothing_twice(
    whole: Whole,
) -> None:
    whole.serve(TALK, 2)
    before = whole.until_reached(0, 1)
    whole.service.crash()
    assert sorted(whole.reached()) == [0, 1]
    servicing = whole.service.exchanges.servicing
    leases = list(whole.service.coordinator.state.endpoints["talk"])
    assert [servicing.standing(lease) for lease in leases] == [None, None]
    # The worker is asked who it is, and tells of every replica again.
    whole.agent.speak_up()
    whole.until(lambda: all(servicing.standing(lease) for lease in leases))
    assert whole.until_reached(0, 1) == before
    tasks = whole.service.coordinator.state.jobs[JOB].tasks or {}
    assert [task.attempt for task in tasks.values()] == [1, 1]
    assert whole.judged() == []


@pytest.mark.slow
def test_scaled_down_and_ended_it_leaves_no_process_and_no_endpoint(whole: Whole) -> None:
    whole.serve(TALK, 2)
    first, second = whole.until_reached(0, 1)
    whole.service.do(c.StopReplicas(job_id=JOB, indices=(Index(0),), reason="scaled down"))
    whole.until(lambda: not psutil.pid_exists(first))
    assert whole.until_reached(1) == [second]
    payload = encode_plan(ServicePlan(argv=(PYTHON, "-uc", TALK)))
    whole.service.do(c.AddTasks(job_id=JOB, first=2, items=(payload,)))
    _, third = whole.until_reached(1, 2)
    whole.service.do(c.EndService(job_id=JOB))
    whole.until(lambda: not psutil.pid_exists(second) and not psutil.pid_exists(third))
    assert whole.reached() == {}
    assert job_state(whole.service.coordinator.state.jobs[JOB]) is JobState.KILLED
    assert whole.judged() == []


@pytest.mark.slow
def test_one_that_exits_at_once_spends_its_budget_and_is_put_into_quarantine(whole: Whole) -> None:
    whole.serve("raise SystemExit(3)")
    whole.until(lambda: whole.state() is TaskState.QUARANTINED)
    service = whole.service.coordinator.state.jobs[JOB].service
    assert service is not None
    assert service.replicas[Index(0)].total == POLICY.restarts + 1
    ends = [
        end for record in whole.service.records() for event in record.events
        for end in getattr(event, "ends", ())
    ]  # fmt: skip
    assert {end.exit_code for end in ends} == {3}
    assert whole.judged() == []

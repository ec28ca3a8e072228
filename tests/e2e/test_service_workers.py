"""Services on real `holdfast worker start` processes under a real coordinator: replicas come up,
come back, move, and go, and nothing is started twice."""

import importlib.util
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.spec import JobSpec, ServicePolicy
from holdfast.core.task import TaskState
from holdfast.testing.loopback import ServerProcess, WorkerProcess
from holdfast.wire.http import Http
from holdfast.wire.service import SERVICE, Probe, ServicePlan, encode_plan
from holdfast.wire.target import Server


def _load(name: str) -> ModuleType:
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


stages = _load("worker_stage")
Stage, Hand, until = stages.Stage, stages.Hand, stages.until

# A worker that the machine keeps waiting for a while loses nothing: its services would be begun
# again, and they are counted here.
TERM_MS = 15_000
POLICY = ServicePolicy(restarts=5, refill_ms=600_000, delay_ms=50, endpoint="talk")
# Writes its number down, and says it to whoever connects.
TALK = """
import os, socket, sys
line = socket.create_server(('127.0.0.1', int(sys.argv[1])))
open(sys.argv[2], 'a').write(f'{os.getpid()}\\n')
while True:
    line.accept()[0].sendall(str(os.getpid()).encode())
"""


class Play:
    """A stage, a service on it, and what is seen of both from outside."""

    def __init__(self, stage: Stage, notes: Path) -> None:
        self.stage = stage
        self.notes = notes

    def payload(self, code: str = TALK, **plan: object) -> bytes:
        argv = (sys.executable, "-uc", code, "$PORT", str(self.notes))
        return encode_plan(ServicePlan(argv=argv, **plan))

    def serve(self, replicas: int = 1, code: str = TALK, **plan: object) -> JobId:
        payload = self.payload(code, **plan)
        spec = JobSpec(name="talk", kind=SERVICE, target="", cpus_milli=0, service=POLICY)
        command = c.SubmitJob(spec=spec, items=(payload,) * replicas, sealed=False)
        return JobId(str(self.stage.do(command)))

    def leases(self, job: JobId) -> list[LeaseId]:
        return [task.lease_id for task in self.stage.job(job).tasks.values() if task.lease_id]

    def standing(self, lease: LeaseId) -> str:
        """How its worker says it stands; empty where this coordinator has not heard."""
        servicing = self.stage.served.exchanges.servicing
        found = self.stage.ask(lambda _: servicing.standing(lease))
        return "" if found is None else found.news.state

    def begun(self) -> list[int]:
        """Every process that ever began, in order."""
        return [int(line) for line in self.notes.read_text().split()] if self.notes.exists() else []

    def addresses(self) -> list[str]:
        """Where replicas can be reached, as recorded."""
        return self.stage.ask(
            lambda coordinator: [
                endpoint.address
                for task in coordinator.state.endpoints.get("talk", {}).values()
                for endpoint in task.endpoints
            ]
        )

    def answers(self) -> set[int]:
        """Who answers there."""
        return {said_at(address) for address in self.addresses()}

    def up(self, count: int) -> set[int]:
        until(lambda: len(self.addresses()) == count)
        answers = self.answers()
        assert len(answers) == count
        return answers


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path / "log", term_ms=TERM_MS)
    stage.begin()
    yield stage
    stage.close()


@pytest.fixture
def play(stage: Stage, tmp_path: Path) -> Play:
    return Play(stage, tmp_path / "begun")


@pytest.fixture
def hire(stage: Stage, tmp_path: Path) -> Iterator[Callable[..., Hand]]:
    hands: list[Hand] = []

    def hire(*options: str, name: str = "w") -> Hand:
        hand = Hand(stage, tmp_path / "home", *options, name=name)
        hands.append(hand)
        return hand

    yield hire
    for hand in hands:
        hand.clean_up()


def said_at(address: str) -> int:
    """The number of the process that answers there."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as line:
        return int(line.recv(100))


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid)


@pytest.mark.slow
def test_replicas_come_up_one_that_is_killed_comes_back_and_the_end_leaves_nothing(
    play: Play, hire: Callable[..., Hand]
) -> None:
    hire().says("connected to")
    job = play.serve(2)
    first, second = play.up(2)
    os.kill(first, signal.SIGKILL)
    until(lambda: is_gone(first) and len(play.begun()) == 3)
    assert play.up(2) == set(play.begun()) - {first}
    assert second in play.answers()
    play.stage.do(c.EndService(job_id=job))
    until(lambda: all(map(is_gone, play.begun())))
    assert play.addresses() == []
    play.stage.finished(job)
    assert len(play.begun()) == 3


@pytest.mark.slow
def test_a_coordinator_that_was_away_finds_everything_up_and_starts_nothing_twice(
    play: Play, hire: Callable[..., Hand]
) -> None:
    hire().says("connected to")
    job = play.serve(2)
    before, leases = play.up(2), play.leases(job)
    play.stage.end()
    play.stage.begin()
    until(lambda: [play.standing(lease) for lease in leases] == ["ready", "ready"])
    assert play.leases(job) == leases
    assert play.answers() == before == set(play.begun())
    assert play.stage.ends(job) == []
    # And it is in charge of them.
    play.stage.do(c.EndService(job_id=job))
    until(lambda: all(map(is_gone, before)))
    assert len(play.begun()) == 2


@pytest.mark.slow
def test_one_replica_is_stopped_for_good_and_another_one_is_added(
    play: Play, hire: Callable[..., Hand]
) -> None:
    hire().says("connected to")
    job = play.serve(2)
    before = play.up(2)
    play.stage.do(c.StopReplicas(job_id=job, indices=(Index(0),)))
    until(lambda: len(play.addresses()) == 1)
    (left,) = play.answers()
    (stopped,) = before - {left}
    until(lambda: is_gone(stopped))
    play.stage.do(c.AddTasks(job_id=job, first=2, items=(play.payload(),)))
    assert play.up(2) == set(play.begun()) - {stopped}
    assert left in play.answers()
    assert len(play.begun()) == 3


@pytest.mark.slow
def test_an_exit_at_once_is_told_with_its_last_lines(
    play: Play, hire: Callable[..., Hand]
) -> None:
    hire().says("connected to")
    job = play.serve(code="print('no such table')")
    until(lambda: play.stage.ends(job) != [])
    end = play.stage.ends(job)[0]
    assert end.reason == "failed"
    assert end.error.endswith("exited with code 0\nno such table")


@pytest.mark.slow
def test_a_live_probe_that_fails_is_the_end_of_the_attempt_and_another_one_begins(
    play: Play, hire: Callable[..., Hand], tmp_path: Path
) -> None:
    well = tmp_path / "well"
    well.touch()
    hire().says("connected to")
    live = Probe(kind="exec", argv=("test", "-e", str(well)), period_ms=50, failures=2)
    job = play.serve(live=live)
    (before,) = play.up(1)
    well.unlink()
    until(lambda: play.stage.ends(job) != [])
    well.touch()
    assert play.stage.ends(job)[0].error.startswith("live probe failed: exec test exited with")
    until(lambda: is_gone(before))
    until(lambda: len(play.addresses()) == 1 and play.answers() != {before})


@pytest.mark.slow
def test_a_drained_worker_is_left_by_its_services_and_another_one_takes_them(
    play: Play, hire: Callable[..., Hand]
) -> None:
    hire(name="old").says("connected to")
    play.serve(2)
    before = play.up(2)
    hire(name="new").says("connected to")
    play.stage.do(c.CordonWorker(worker=WorkerId("old")))
    play.stage.ask(lambda _: play.stage.served.drain_worker(WorkerId("old")))
    until(lambda: all(map(is_gone, before)))
    # A process may end before its worker was heard: until then it is still said to be there.
    until(lambda: set(play.stage.holders()) == {"new"})
    until(lambda: len(play.addresses()) == 2)
    assert play.answers().isdisjoint(before)
    assert set(play.stage.holders()) == {"new"}
    reasons = {end.reason for record in play.stage.records() for event in record.events
               if isinstance(event, e.AttemptsReturned) for end in event.ends}  # fmt: skip
    assert reasons == {"released"}


@pytest.mark.slow
def test_a_worker_that_is_told_to_end_takes_its_services_with_it_in_good_order(
    play: Play, hire: Callable[..., Hand]
) -> None:
    hand = hire().says("connected to")
    job = play.serve(2)
    before = play.up(2)
    hand.signal(signal.SIGTERM)
    assert hand.ends() == 0
    assert all(map(is_gone, before))
    assert play.addresses() == []
    assert {end.reason for end in play.stage.ends(job)} == {"released"}


@pytest.mark.slow
def test_a_worker_that_is_killed_takes_its_services_with_it(
    play: Play, hire: Callable[..., Hand]
) -> None:
    hand = hire().says("connected to")
    job = play.serve(2)
    before = play.up(2)
    hand.signal(signal.SIGKILL)
    until(lambda: all(map(is_gone, before)))
    until(lambda: play.addresses() == [])
    hire(name="other").says("connected to")
    assert play.up(2).isdisjoint(before)
    tasks = play.stage.job(job).tasks
    assert {task.state for task in tasks.values()} == {TaskState.RUNNING}


@pytest.mark.slow
def test_a_server_that_is_killed_finds_everything_up_and_starts_nothing_twice(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path / "data")
    play = Play(stage, tmp_path / "begun")
    stage.begin()
    play.serve(2)
    stage.close()
    with ServerProcess(tmp_path) as server, WorkerProcess(server, tmp_path / "w", "--slots", "2"):

        def told() -> list[tuple[str, int]]:
            http = Http(Server(url=server.url, token=server.token))
            try:
                found = http.get("/api/v1/endpoints", dict, name="talk")["endpoints"]
            finally:
                http.close()
            return [(each["address"], each["lease_id"]) for each in found]

        until(lambda: len(told()) == 2)
        before = told()
        # Whoever answers has written its number down; one that listens may be about to.
        pids = {said_at(address) for address, _ in before}
        assert pids == set(play.begun())
        for _ in range(2):
            server.kill()
            assert {said_at(address) for address, _ in before} == pids
            server.start()
            assert told() == before
        os.kill(min(pids), signal.SIGKILL)
        until(lambda: len(play.begun()) == 3)
        until(lambda: len(told()) == 2)
        assert {said_at(address) for address, _ in told()} == set(play.begun()) - {min(pids)}
    until(lambda: all(map(is_gone, play.begun())))


@pytest.mark.slow
def test_what_replicas_take_is_told(play: Play, hire: Callable[..., Hand]) -> None:
    hire().says("connected to")
    job = play.serve()
    play.up(1)
    (lease,) = play.leases(job)

    def samples() -> list[object]:
        served = play.stage.served
        return play.stage.ask(lambda _: list(served.exchanges.servicing.samples(lease)))

    until(lambda: samples() != [])
    (sampled, *_) = samples()
    assert sampled.sample.memory_bytes > 1_000_000
    assert (sampled.sample.requests_per_s, sampled.sample.problem) == (None, "")

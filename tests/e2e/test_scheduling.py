"""Gangs, preemption, dependencies and limits with real processes: a server that can be killed, and
three workers that say what they are like."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from holdfast.coordinator.inspect import look_into
from holdfast.core import events as e
from holdfast.core.record import Record
from holdfast.testing.fleet import wait_until
from holdfast.testing.loopback import ServerProcess, WorkerProcess

PATIENCE_S = 60.0
# No lease ends by itself, however slow the machine: a worker that is started again is proof enough.
TERM = ("--lease-term", "10m", "--aging", "1s", "--cordon-after", "3")

# Says that it has begun, and waits until it may go on.
PATIENT = (
    "import os, sys, time; name = sys.argv[1] + '.' + os.environ['HOLDFAST_TASK_INDEX']\n"
    "open(name, 'a').write(str(os.getpid()) + '\\n')\n"
    "while not os.path.exists(sys.argv[1] + '.go'): time.sleep(0.01)"
)


class Site:
    """A server, workers w0 to w2 in racks of their own, and the command line."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.workers = [
            WorkerProcess(
                server, folder / f"w{n}", "--name", f"w{n}", "--slots", "1", "--cpus", "1",
                "--attr", f"rack={'ab'[n // 2]}", "--attr", "site=one", "--resource", "licence=1",
            )
            for n in range(3)
        ]  # fmt: skip

    def call(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            env={
                **os.environ,
                "HOLDFAST_SERVER": self.server.url,
                "HOLDFAST_TOKEN_FILE": str(self.server.token_file),
            },
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def submit(self, *options: str, mark: str = "") -> str:
        """A job whose tasks wait at this mark, or that are over at once."""
        code = (PATIENT, str(self.folder / mark)) if mark else ("",)
        return self.call("submit", *options, "--", sys.executable, "-c", *code)

    def let_go(self, mark: str) -> None:
        (self.folder / f"{mark}.go").touch()

    def begun(self, mark: str) -> int:
        """How many attempts have begun there, of however many tasks."""
        files = [path for path in self.folder.glob(f"{mark}.*") if path.suffix != ".go"]
        return sum(len(path.read_text().splitlines()) for path in files)

    def job(self, job_id: str) -> dict[str, object]:
        told = self.call("job", "show", job_id, "-o", "json")
        return msgspec.json.decode(told, type=dict[str, object])

    def ended(self, job_id: str) -> object:
        wait_until(
            lambda: self.job(job_id)["state"] not in ("PENDING", "RUNNING"),
            PATIENCE_S,
            what=f"job {job_id}",
        )
        return self.job(job_id)["state"]

    def names(self) -> list[str]:
        return self.call("worker", "list", "-o", "name").splitlines()

    def records(self) -> list[Record]:
        folder = look_into(self.server.data)
        return [told.record for told in folder.records(folder.oldest, folder.last)]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ServerProcess(tmp_path / "served", *TERM) as server, ExitStack() as stack:
        here = Site(server, tmp_path)
        for worker in here.workers:
            stack.enter_context(worker)
        wait_until(lambda: len(here.names()) == len(here.workers), PATIENCE_S, what="workers")
        yield here


def commits_of(record: Record, job_id: str) -> int:
    return sum(
        len(event.commits)
        for event in record.events
        if isinstance(event, e.TasksCompleted) and event.job_id == job_id
    )


@pytest.mark.slow
def test_a_gang_falls_with_a_worker_returns_together_and_commits_once(site: Site) -> None:
    gang = site.submit(
        "--array", "3", "--gang", "--gang-by", "site", "--resource", "licence=1", mark="gang"
    )
    wait_until(lambda: site.begun("gang") == 3, PATIENCE_S, what="the gang")
    site.workers[1].kill()
    site.workers[1].start()
    # All of them begin again, those too whose workers are well.
    wait_until(lambda: site.begun("gang") == 6, PATIENCE_S, what="the gang again")
    site.let_go("gang")
    assert site.ended(gang) == "SUCCEEDED"
    records = site.records()
    together = [sum(isinstance(x, e.LeasesGranted) for x in record.events) for record in records]
    assert [count for count in together if count] == [3, 3]
    reasons = sorted(
        end.reason
        for record in records
        for event in record.events
        if isinstance(event, e.AttemptsReturned)
        for end in event.ends
    )
    assert reasons == ["sibling_failed", "sibling_failed", "worker_lost"]
    assert [commits_of(record, gang) for record in records if commits_of(record, gang)] == [3]


@pytest.mark.slow
def test_something_urgent_ends_what_runs_and_both_finish(site: Site) -> None:
    low = site.submit("--array", "3", mark="low")
    wait_until(lambda: site.begun("low") == 3, PATIENCE_S, what="what runs")
    urgent = site.submit("--priority", "9", "--preempt", "--require", "rack == b", mark="urgent")
    wait_until(lambda: site.begun("urgent") == 1, PATIENCE_S, what="what is urgent")
    site.let_go("urgent")
    assert site.ended(urgent) == "SUCCEEDED"
    site.let_go("low")
    assert site.ended(low) == "SUCCEEDED"
    ends = [
        (end.worker, end.reason, end.charged)
        for record in site.records()
        for event in record.events
        if isinstance(event, e.AttemptsReturned)
        for end in event.ends
    ]
    assert ends == [("w2", "preempted", "")]


@pytest.mark.slow
def test_a_chain_of_dependencies_goes_on_after_the_server_was_killed(site: Site) -> None:
    first = site.submit(mark="first")
    second = site.submit("--after", first)
    third = site.submit("--after", f"{second}:finish")
    never = site.submit("--after", f"{first}:failure")
    wait_until(lambda: site.begun("first") == 1, PATIENCE_S, what="the first")
    site.server.kill()
    site.let_go("first")
    site.server.start()
    for job_id in (first, second, third):
        assert site.ended(job_id) == "SUCCEEDED"
    assert site.ended(never) == "FAILED"
    assert site.job(never)["reason"] == "dependency_failed"
    order = [
        job_id
        for record in site.records()
        for job_id in (first, second, third)
        if commits_of(record, job_id)
    ]
    assert order == [first, second, third]


@pytest.mark.slow
def test_a_namespace_never_holds_more_than_its_limit(site: Site) -> None:
    site.call("limit", "set", "namespace/small", "--running", "2")
    jobs = [site.submit("--namespace", "small", "--array", "4") for _ in range(2)]
    for job_id in jobs:
        assert site.ended(job_id) == "SUCCEEDED"
    held, most = 0, 0
    for record in site.records():
        for event in record.events:
            if isinstance(event, e.LeasesGranted):
                held += len(event.indices)
            elif isinstance(event, e.TasksCompleted):
                held -= len(event.commits)
        most = max(most, held)
    assert (held, most) == (0, 2)


# Goes well, but not on the worker w0.
FICKLE = "import os, sys; sys.exit(os.environ['HOLDFAST_WORKER_ID'] == 'w0')"
SHORT = "import time; time.sleep(0.1)"


class Started(msgspec.Struct, frozen=True):
    """A lease as the log tells it."""

    at: int
    job_id: str
    worker: str


def started(site: Site, *jobs: str) -> list[Started]:
    return [
        Started(record.at, event.job_id, event.worker)
        for record in site.records()
        for event in record.events
        if isinstance(event, e.LeasesGranted) and event.job_id in jobs
        for _ in event.indices
    ]


def submitted_at(site: Site, job_id: str) -> int:
    return next(
        record.at
        for record in site.records()
        for event in record.events
        if isinstance(event, e.JobSubmitted) and event.job_id == job_id
    )


@pytest.mark.slow
def test_namespaces_share_what_there_is_and_what_waits_long_has_its_turn(site: Site) -> None:
    work = ("--", sys.executable, "-c", SHORT)
    # Nothing else begins before all of them wait.
    site.submit("--array", "3", mark="held")
    wait_until(lambda: site.begun("held") == 3, PATIENCE_S, what="what holds the workers")
    jobs = [
        site.call("submit", "--array", count, "--namespace", namespace, *work)
        for namespace, count in (("a", "400"), ("b", "25"), ("c", "25"))
    ]
    site.let_go("held")
    first, _, third = jobs
    wait_until(lambda: site.job(third)["state"] == "SUCCEEDED", PATIENCE_S, what="the third")
    since = submitted_at(site, third)
    order = [one.job_id for one in started(site, *jobs) if one.at > since]
    while_all = order[: min(len(order) - order[::-1].index(job_id) for job_id in jobs)]
    parts = [while_all.count(job_id) for job_id in jobs]
    # While all of them wanted more than there is, each had about as much of it.
    assert sum(parts) ** 2 / (len(parts) * sum(part**2 for part in parts)) >= 0.95, parts
    patient = site.call("submit", "--priority", "-1", *work)
    assert site.ended(patient) == "SUCCEEDED"
    assert site.job(first)["state"] == "RUNNING", "it did not wait for what is more urgent to end"
    site.call("job", "cancel", first)


@pytest.mark.slow
def test_a_rate_a_delay_and_a_scheduling_deadline_are_kept(site: Site) -> None:
    site.call("limit", "set", "namespace/rated", "--rate", "2/1s")
    rated = site.submit("--namespace", "rated", "--array", "6")
    delayed = site.submit("--delay", "1s")
    nowhere = site.submit("--schedule-timeout", "1s", "--require", "rack == z")
    for job_id in (rated, delayed):
        assert site.ended(job_id) == "SUCCEEDED"
    assert site.ended(nowhere) == "UNSCHEDULABLE"
    starts = [one.at for one in started(site, rated)]
    for first, at in enumerate(starts):
        for count, later in enumerate(starts[first:], start=1):
            assert count <= 2 + (later - at) * 2 / 1_000 + 0.001
    (begun,) = started(site, delayed)
    assert begun.at - submitted_at(site, delayed) >= 1_000
    (reason,) = [
        event.reason for record in site.records() for event in record.events
        if isinstance(event, e.TasksUnschedulable)
    ]  # fmt: skip
    assert "rack == z" in reason


@pytest.mark.slow
def test_tasks_are_spread_over_workers_or_packed_on_one(site: Site, tmp_path: Path) -> None:
    with ExitStack() as stack:
        for name in ("x0", "x1"):
            options = ("--name", name, "--slots", "3", "--cpus", "3", "--attr", "rack=x")
            stack.enter_context(WorkerProcess(site.server, tmp_path / name, *options))
        wait_until(lambda: {"x0", "x1"} <= set(site.names()), PATIENCE_S, what="more workers")
        for spread, workers in (("spread", 2), ("pack", 1)):
            job_id = site.submit("--array", "3", "--require", "rack == x", "--spread", spread)
            assert site.ended(job_id) == "SUCCEEDED"
            assert len({one.worker for one in started(site, job_id)}) == workers


@pytest.mark.slow
def test_a_worker_that_fails_what_goes_well_elsewhere_is_cordoned(site: Site) -> None:
    work = ("--retries", "3", "--", sys.executable, "-c", FICKLE)
    for _ in range(10):
        job_id = site.call("submit", "--array", "6", *work)
        assert site.ended(job_id) == "SUCCEEDED"
        cordons = [
            event for record in site.records() for event in record.events
            if isinstance(event, e.WorkerCordoned)
        ]  # fmt: skip
        if cordons:
            break
    assert [event.worker for event in cordons] == ["w0"]
    assert "went well on other workers" in cordons[0].reason

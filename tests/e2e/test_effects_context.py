"""Tasks that commit early, promise effects and tell their progress, from the call to the log.

A block after a commit runs at most once, whatever is killed; what a failed attempt promised never
happens.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import holdfast
from holdfast.client.holdfast import Holdfast
from holdfast.errors import TaskFailed
from holdfast.testing import speaking
from holdfast.testing.fleet import wait_until
from holdfast.testing.loopback import ServerProcess, WorkerProcess
from holdfast.testing.speaking import hear, say

PATIENCE_S = 120


class Told:
    """What a task that commits is given, and what it has done."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.values = {name: str(folder / name) for name in ("ran", "inside", "go")}
        for name in ("inside", "go"):
            os.mkfifo(self.values[name])

    def inside(self) -> str:
        """Wait for the block to begin, or for the loss of the lease."""
        return hear(self.values["inside"])

    def go(self, words: str = "on") -> None:
        say(self.values["go"], words)

    def steps(self) -> list[str]:
        return Path(self.values["ran"]).read_text().split()


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "told")


def parked(hf: Holdfast) -> list[tuple[str, str]]:
    """The entries that were parked, and why, as the log tells it."""
    actions = [action for record in hf.transactions(1_000) for action in record.actions]
    return [
        (action.entity, str(action.details["error"]))
        for action in actions
        if action.action == "effect_parked"
    ]


# Embedded.


@pytest.fixture(params=["threads", "processes"])
def executor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def hf(tmp_path: Path, executor: str) -> Iterator[Holdfast]:
    sinks = {"ledger": holdfast.FileSink(str(tmp_path / "ledger.jsonl"))}
    with holdfast.open(tmp_path / "state", executor=executor, workers=2, sinks=sinks) as hf:
        yield hf


def test_the_result_is_there_while_the_block_runs_and_the_task_ends_with_it(
    hf: Holdfast, told: Told
) -> None:
    handle = hf.submit(speaking.commits, told.values)
    assert told.inside()
    assert handle.result(PATIENCE_S) == "committed"
    assert handle.state == "RUNNING"
    told.go()
    wait_until(lambda: handle.state == "SUCCEEDED", PATIENCE_S)
    assert told.steps() == ["prepared", "inside"]
    assert handle.result(PATIENCE_S) == "committed"


def test_a_block_that_raises_is_parked_and_the_commit_stands(hf: Holdfast, told: Told) -> None:
    handle = hf.submit(speaking.commits, told.values)
    assert told.inside()
    told.go("raise")
    wait_until(lambda: bool(parked(hf)), PATIENCE_S)
    assert parked(hf) == [(f"{handle.id}/0.0", "OSError: the printer is on fire")]
    assert handle.result(PATIENCE_S) == "committed"
    assert handle.state == "RUNNING"
    assert told.steps() == ["prepared", "inside"]


def test_what_a_failed_attempt_promised_does_not_happen(hf: Holdfast, tmp_path: Path) -> None:
    handle = hf.submit(speaking.promises_each_time, str(tmp_path / "tries"), "ledger")
    assert handle.result(PATIENCE_S) == 2
    wait_until(lambda: handle.state == "SUCCEEDED", PATIENCE_S)
    lines = (tmp_path / "ledger.jsonl").read_text().splitlines()
    assert [json.loads(line)["body"] for line in lines] == [{"try": 2}]


def test_a_sink_that_is_not_there_fails_the_task_and_names_those_there_are(
    hf: Holdfast, tmp_path: Path
) -> None:
    lone = speaking.promises_each_time.options(retries=0)
    with pytest.raises(TaskFailed, match="UnknownSink: there is no sink 'leger'; there are ledger"):
        hf.submit(lone, str(tmp_path / "tries"), "leger").result(PATIENCE_S)


def test_an_attempt_that_tells_nothing_is_ended_and_said_to_have_stalled(hf: Holdfast) -> None:
    handle = hf.submit(speaking.stalls)
    with pytest.raises(TaskFailed, match=r"it stalled: it told no progress for 0\.3 s"):
        handle.result(PATIENCE_S)


@pytest.mark.slow
def test_one_that_goes_on_telling_does_not_stall(hf: Holdfast) -> None:
    assert hf.submit(speaking.goes_on, 5).result(PATIENCE_S) == "done"


def test_a_child_that_is_killed_in_its_block_leaves_it_parked(tmp_path: Path, told: Told) -> None:
    with holdfast.open(tmp_path / "state", executor="processes", workers=1) as hf:
        handle = hf.submit(speaking.commits, told.values)
        os.kill(int(told.inside()), signal.SIGKILL)
        wait_until(lambda: bool(parked(hf)), PATIENCE_S)
        assert parked(hf)[0][0] == f"{handle.id}/0.0"
        assert "was killed (SIGKILL)" in parked(hf)[0][1]
        assert hf.submit(speaking.noop, 5).result(PATIENCE_S) == 5
        assert handle.result(PATIENCE_S) == "committed"
    assert told.steps() == ["prepared", "inside"]


def test_a_folder_that_is_closed_in_a_block_says_so_and_never_runs_it_again(
    tmp_path: Path, told: Told
) -> None:
    state = tmp_path / "state"
    with holdfast.open(state, executor="processes", workers=1, grace=0) as hf:
        handle = hf.submit(speaking.commits, told.values)
        assert told.inside()
    with holdfast.open(state, executor="processes", workers=1) as hf:
        assert [entity for entity, _ in parked(hf)] == [f"{handle.id}/0.0"]
        assert hf.submit(speaking.noop, 5).result(PATIENCE_S) == 5
    assert told.steps() == ["prepared", "inside"]


# With a server.


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "served") as started:
        yield started


def connected(server: ServerProcess) -> Holdfast:
    return holdfast.connect(server.url, token_file=server.token_file)


def test_a_worker_of_a_server_runs_the_block_after_the_commit(
    server: ServerProcess, tmp_path: Path, told: Told
) -> None:
    worker = WorkerProcess(server, tmp_path / "one", "--slots", "1")
    with worker, connected(server) as hf:
        handle = hf.submit(speaking.commits, told.values)
        assert told.inside()
        assert handle.result(PATIENCE_S) == "committed"
        # Its slot is taken: what comes next waits until the block is left.
        behind = hf.submit(speaking.noop, 5)
        told.go()
        wait_until(lambda: handle.state == "SUCCEEDED", PATIENCE_S)
        assert behind.result(PATIENCE_S) == 5
    assert told.steps() == ["prepared", "inside"]


@pytest.mark.slow
def test_a_worker_that_is_killed_in_a_block_leaves_it_parked(
    server: ServerProcess, tmp_path: Path, told: Told
) -> None:
    worker = WorkerProcess(server, tmp_path / "one", "--slots", "1", "--name", "press")
    with worker, connected(server) as hf:
        handle = hf.submit(speaking.commits, told.values)
        assert told.inside()
        worker.kill()
        worker.start()
        wait_until(lambda: bool(parked(hf)), PATIENCE_S)
        assert parked(hf)[0][0] == f"{handle.id}/0.0"
        assert handle.result(PATIENCE_S) == "committed"
        assert hf.submit(speaking.noop, 5).result(PATIENCE_S) == 5
    assert told.steps() == ["prepared", "inside"]


@pytest.mark.slow
def test_one_that_lost_its_lease_before_its_commit_never_enters_the_block(tmp_path: Path) -> None:
    # Short, since its end is waited for, and not so short that a busy machine lets it pass before.
    with ServerProcess(tmp_path / "served", "--lease-term", "5s") as server:
        lose_a_lease_before_the_commit(server, tmp_path)


def lose_a_lease_before_the_commit(server: ServerProcess, tmp_path: Path) -> None:
    gate, ran = tmp_path / "gate", tmp_path / "ran"
    os.mkfifo(gate)
    ran.touch()
    frozen = WorkerProcess(server, tmp_path / "one", "--slots", "1")
    other = WorkerProcess(server, tmp_path / "two", "--slots", "1")
    with frozen, connected(server) as hf:
        handle = hf.submit(speaking.commits_when_let, str(gate), str(ran))
        child = int(hear(str(gate)))
        frozen.freeze()
        with other:
            wait_until(lambda: handle.state == "SUCCEEDED", PATIENCE_S)
        # The worker is frozen and its child is not: the child asks for its commit now.
        say(str(gate), "on")
        wait_until(lambda: "asks 1" in ran.read_text(), PATIENCE_S)
        frozen.thaw()
        wait_until(lambda: "lost 1" in ran.read_text() or not psutil.pid_exists(child), PATIENCE_S)
        assert handle.result(PATIENCE_S) == 2
        assert hf.submit(speaking.noop, 5).result(PATIENCE_S) == 5
    steps = ran.read_text().splitlines()
    assert [step for step in steps if step.startswith("inside")] == ["inside 2"]

"""Two servers on one folder: one of them serves, and every other is refused before it writes."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from holdfast.coordinator.inspect import open_folder
from holdfast.core import events as e
from holdfast.core.watch import Watch
from holdfast.testing.asking_jobs import Asker, broken_promises
from holdfast.testing.loopback import ServerProcess
from holdfast.testing.patience import until

SHARE = 4
SOAK = 100
RIVALS = 3
PATIENCE_S = 60


def start_beside(server: ServerProcess, tmp_path: Path) -> "subprocess.Popen[str]":
    """A rival, which listens elsewhere."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "holdfast", "serve", "--data", str(server.data)),
            *("--listen", "127.0.0.1:0", "--token-file", str(tmp_path / "rival")),
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def judge(server: ServerProcess, openings: int) -> None:
    """One writer at a time: the chain holds, epochs only rise, and nobody else took the log."""
    watch, epochs, opened = Watch(), [0], Counter[int]()
    for told in open_folder(server.data).folder.records():
        assert watch.feed(told.position, told.record) == ()
        epochs.append(told.epoch)
        for event in told.record.events:
            if isinstance(event, e.LogOpened):
                opened[event.epoch] += 1
    assert epochs == sorted(epochs)
    assert set(opened.values()) == {1}
    assert len(opened) == openings


def rival_again_and_again(tmp_path: Path, times: int) -> None:
    with ServerProcess(tmp_path) as server:
        with Asker(server, "asker", rest_s=0.05) as asker:
            refused = 0
            for _ in range(times):
                rival = start_beside(server, tmp_path)
                _, said = rival.communicate(timeout=PATIENCE_S)
                assert rival.returncode != 0
                assert "is in use by process" in said
                assert "Traceback" not in said
                refused += 1
            until(lambda: len(asker.promised) > times)
        assert broken_promises(server, asker.promised) == []
        server.kill()
        judge(server, openings=1)
        assert refused == times


@pytest.mark.slow
def test_a_second_server_is_refused_while_the_first_one_serves(tmp_path: Path) -> None:
    rival_again_and_again(tmp_path, SHARE)


@pytest.mark.soak
def test_a_second_server_is_refused_a_hundred_times(tmp_path: Path) -> None:
    rival_again_and_again(tmp_path, SOAK)


def await_one(rivals: list["subprocess.Popen[str]"]) -> "subprocess.Popen[str]":
    until(lambda: sum(rival.poll() is not None for rival in rivals) == len(rivals) - 1)
    (winner,) = [rival for rival in rivals if rival.poll() is None]
    return winner


def race(tmp_path: Path, dice: Random, times: int) -> None:
    """The server dies, and several want to be the next at once."""
    server = ServerProcess(tmp_path)
    server.start()
    server.kill()
    for _ in range(times):
        rivals = [start_beside(server, tmp_path) for _ in range(RIVALS)]
        try:
            winner = await_one(rivals)
            assert winner.stderr is not None
            assert any("serving" in line for line in winner.stderr)
        finally:
            for rival in dice.sample(rivals, len(rivals)):
                rival.kill()
                rival.communicate(timeout=PATIENCE_S)
    server.stop()
    judge(server, openings=1 + times)


@pytest.mark.slow
def test_of_several_servers_that_want_a_folder_at_once_one_has_it(
    tmp_path: Path, dice: Random
) -> None:
    race(tmp_path, dice, 2)


@pytest.mark.soak
def test_of_several_servers_that_want_a_folder_at_once_one_has_it_every_time(
    tmp_path: Path, dice: Random
) -> None:
    race(tmp_path, dice, SOAK // RIVALS)

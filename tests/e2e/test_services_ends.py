"""How services end: told to, against their will, with their worker, and never by halves."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.testing.service_stage import DEAF, FOREVER, TALK, ServiceStage
from holdfast.worker import services


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ServiceStage]:
    stage = ServiceStage(tmp_path / "here")
    yield stage
    stage.close()
    assert stage.folders() == []


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid)


def test_a_replica_that_is_stopped_may_end_in_its_own_way(
    stage: ServiceStage, tmp_path: Path
) -> None:
    parting = tmp_path / "parting"
    code = (
        "import pathlib, signal, sys\n"
        f"def bye(*_): pathlib.Path({str(parting)!r}).touch(); sys.exit()\n"
        "signal.signal(signal.SIGTERM, bye)\nprint('up', flush=True)\nsignal.pause()"
    )
    lease = stage.python(code, ports=(), grace_ms=60_000)
    stage.until(lambda: "up" in stage.output(lease))
    stage.stop(lease)
    stage.until(lambda: not stage.commands.holds(0) and not stage.agent.executor.lingering())
    assert parting.exists()
    assert (stage.failed, stage.released) == ([], [])


def test_one_that_ignores_the_signal_is_killed_after_its_grace_with_all_it_started(
    stage: ServiceStage,
) -> None:
    lease = stage.python(DEAF, ports=(), grace_ms=50)
    stage.until(lambda: len(stage.pids(lease)) == 2)
    stage.stop(lease)
    stage.until(lambda: all(map(is_gone, stage.pids(lease))))
    stage.until(lambda: not stage.commands.holds(0))
    assert (stage.failed, stage.released) == ([], [])


@pytest.mark.parametrize("how", ["operator", "leaving"])
def test_a_worker_that_is_left_ends_nothing_before_others_have_heard_of_it(
    stage: ServiceStage, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "FAREWELL_MS", 1_000_000)
    lease = stage.python(TALK)
    stage.until_state(lease, "ready")
    pid = int(stage.ask(lease))
    stage.is_away = True
    if how == "operator":
        # As the agent does that is told so.
        stage.book.is_drained = stage.is_drained = True
    else:
        stage.agent.drain()
    stage.turn()
    assert stage.book.state_of(lease) == "stopping"
    with pytest.raises(psutil.TimeoutExpired):
        psutil.Process(pid).wait(0.3)
    stage.come_back()
    assert stage.states(lease)[-1] == "stopping"
    stage.until(lambda: bool(stage.released))
    assert [(back.lease_id, back.started) for back in stage.released] == [(lease, True)]
    assert is_gone(pid)
    assert stage.failed == []


@pytest.mark.slow
def test_a_worker_that_is_left_while_nobody_listens_ends_what_it_has_all_the_same(
    stage: ServiceStage,
) -> None:
    lease = stage.python(FOREVER, ports=())
    stage.until_state(lease, "ready")
    stage.until(lambda: bool(stage.pids(lease)))
    stage.is_away = True
    stage.agent.drain()
    (pid,) = stage.pids(lease)
    stage.until(lambda: is_gone(pid))
    stage.come_back()
    stage.until(lambda: bool(stage.released))


@pytest.mark.slow
def test_a_desk_that_comes_back_and_asks_hears_of_everything_and_nothing_was_restarted(
    stage: ServiceStage,
) -> None:
    up = stage.python(TALK, slot=0)
    down = stage.python(FOREVER, slot=1)
    stage.until_state(up, "ready")
    stage.until(lambda: bool(stage.states(down)))
    pid = stage.ask(up)
    stage.is_away = True
    stage.agent.speak_up()
    stage.turn()
    stage.heard.clear()
    stage.asks_who = True
    stage.come_back()
    stage.until(lambda: stage.states(up) == ["ready"] and "starting" in stage.states(down))
    assert stage.ask(up) == pid
    assert set(stage.held) == {up, down}


@pytest.mark.slow
def test_the_ports_of_those_that_live_are_never_given_again(stage: ServiceStage) -> None:
    leases = [stage.python(FOREVER, slot=slot) for slot in range(3)]
    stage.until(lambda: all(stage.states(lease) for lease in leases))
    assert len({stage.addresses[lease] for lease in leases}) == 3


def test_a_worker_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    """Not the replica, nor what it started, nor a probe that is under way."""
    told = tmp_path / "probe"
    program = f"""
from pathlib import Path
from holdfast.testing.service_stage import ServiceStage
from holdfast.wire.service import Probe
from holdfast.worker import attendant

stage = ServiceStage(Path({str(tmp_path / "there")!r}))
asks = "echo $$ > {told}.new; mv {told}.new {told}; sleep 1000"
probe = Probe(kind="exec", argv=("sh", "-c", asks), timeout_ms=1_000_000)
lease = stage.python({DEAF!r}, ready=probe)
stage.until(lambda: len(stage.pids(lease)) == 2 and Path({str(told)!r}).exists())
print(*stage.pids(lease), flush=True)
stage.until(lambda: False)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stdout is not None
        pids = [int(word) for word in worker.stdout.readline().split()]
        pids.append(int(told.read_text()))
        assert len(pids) == 3
        worker.kill()
    for pid in pids:
        _until_gone(pid)


def _until_gone(pid: int) -> None:
    try:
        psutil.Process(pid).wait(60)
    except psutil.NoSuchProcess:
        return

"""Services are real programs: they come up late or never, hang, ignore what they are told, are
killed, and leave nothing."""

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.core.ids import LeaseId
from holdfast.testing.service_stage import ServiceStage
from holdfast.wire.service import Probe

SERVE = """
import http.server, os
at = ('127.0.0.1', int(os.environ['PORT']))
http.server.ThreadingHTTPServer(at, http.server.SimpleHTTPRequestHandler).serve_forever()
"""

# Says its number to whoever connects.
TALK = """
import os, socket, sys
line = socket.create_server(('127.0.0.1', int(os.environ['PORT'])))
print(os.getpid(), flush=True)
while True:
    line.accept()[0].sendall(str(os.getpid()).encode())
"""
FOREVER = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
DEAF = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'],
                         start_new_session=True)
print(os.getpid(), child.pid, flush=True)
while True:
    signal.pause()
"""

UP = Probe(kind="tcp", failures=1_000)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[ServiceStage]:
    stage = ServiceStage(tmp_path / "here")
    yield stage
    stage.close()
    assert stage.folders() == []


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid)


@pytest.mark.slow
def test_a_service_gets_a_port_and_is_ready_when_that_takes_connections(
    stage: ServiceStage
) -> None:
    lease = stage.give("python3", "-m", "http.server", "$PORT")
    stage.until_state(lease, "ready")
    assert stage.states(lease)[0] == "starting"
    url = f"http://{stage.addresses[lease]}/"
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.status == 200
    assert stage.held == (lease,)


def test_two_of_one_plan_have_ports_of_their_own_and_are_told_their_numbers(
    stage: ServiceStage
) -> None:
    names = ("PORT", "PORT_WEB", "PORT_ADMIN", "HOLDFAST_ADDRESS", "AT")
    code = f"import os; print(*(os.environ[name] for name in {names}), flush=True)\n{FOREVER}"
    leases = [
        stage.python(code, slot=slot, ports=("web", "admin"), env={"AT": ":${PORT_ADMIN}"})
        for slot in range(2)
    ]
    stage.until(lambda: all(len(stage.output(lease).split()) >= 5 for lease in leases))
    told = [stage.output(lease).split() for lease in leases]
    ports = {port for words in told for port in (words[0], words[2])}
    assert len(ports) == 4
    for lease, words in zip(leases, told, strict=True):
        stage.until(lambda lease=lease: bool(stage.states(lease)))
        assert words[1] == words[0]
        assert words[3] == stage.addresses[lease] == f"127.0.0.1:{words[0]}"
        assert words[4] == f":{words[2]}"


def test_without_a_port_it_is_ready_from_its_start(stage: ServiceStage) -> None:
    lease = stage.python(FOREVER, ports=())
    stage.until_state(lease, "ready")
    assert stage.addresses[lease] == ""


def test_a_port_that_never_opens_keeps_it_starting_and_says_why(stage: ServiceStage) -> None:
    lease = stage.python(FOREVER)
    stage.until(lambda: bool(stage.states(lease)) and bool(stage.why(lease)))
    assert stage.why(lease).startswith("ready probe: tcp 127.0.0.1:")
    assert stage.why(lease).endswith("nobody takes connections there")
    assert set(stage.states(lease)) == {"starting"}


def test_an_exit_of_whatever_code_is_a_failure_with_its_last_lines(stage: ServiceStage) -> None:
    fine = stage.python("print('bye')", slot=0)
    bad = stage.python("import sys; print('oh', file=sys.stderr); sys.exit(3)", slot=1)
    stage.until(lambda: len(stage.failed) == 2)
    told = {failed.lease_id: failed for failed in stage.failed}
    assert (told[fine].reason, told[fine].exit_code) == ("failed", 0)
    assert told[fine].error.endswith("exited with code 0\nbye")
    assert (told[bad].reason, told[bad].exit_code) == ("failed", 3)
    assert told[bad].error.endswith("exited with code 3\noh")


@pytest.mark.slow
def test_a_program_that_is_not_there_is_named(stage: ServiceStage) -> None:
    stage.give("/no/such/program")
    stage.until(lambda: bool(stage.failed))
    assert "/no/such/program could not be started" in stage.failed[0].error


def test_a_bad_plan_fails_alone_and_names_its_field(stage: ServiceStage) -> None:
    bad = stage.give("serve", "$PORT_X", slot=0)
    worse = stage.give_payload(b"\xc1", slot=1)
    good = stage.python(FOREVER, slot=2, ports=())
    stage.until(lambda: len(stage.failed) == 2)
    told = {failed.lease_id: failed.error for failed in stage.failed}
    assert told[bad] == "argv: $PORT_X is no port of this service"
    assert told[worse].startswith("the payload is no plan of a service")
    stage.until_state(good, "ready")


@pytest.mark.slow
def test_killed_by_hand_it_is_told_at_once_and_the_next_attempt_comes_up(
    stage: ServiceStage
) -> None:
    lease = stage.python(TALK)
    stage.until_state(lease, "ready")
    os.kill(int(stage.ask(lease)), signal.SIGKILL)
    stage.until(lambda: bool(stage.failed))
    assert "was killed (SIGKILL)" in stage.failed[0].error
    assert stage.held == ()
    again = stage.python(TALK)
    stage.until_state(again, "ready")
    assert stage.addresses[again] != ""


# Probes.


@pytest.mark.slow
def test_an_http_probe_says_when_it_is_ready_and_when_it_no_longer_is(
    stage: ServiceStage, tmp_path: Path
) -> None:
    page = tmp_path / "page"
    probe = Probe(kind="http", path="/page", period_ms=50, failures=2)
    lease = stage.python(SERVE, cwd=str(tmp_path), ready=probe)
    stage.until(lambda: bool(stage.states(lease)) and "answered 404" in stage.why(lease))
    assert set(stage.states(lease)) == {"starting"}
    page.write_text("here")
    stage.until_state(lease, "ready")
    page.unlink()
    stage.until_state(lease, "unready")
    assert stage.why(lease) == "ready probe: http /page answered 404"
    page.write_text("here again")
    stage.until_state(lease, "ready")
    assert not stage.failed


def test_a_live_probe_that_begins_to_fail_ends_the_replica_with_its_last_lines(
    stage: ServiceStage, tmp_path: Path
) -> None:
    page = tmp_path / "page"
    page.write_text("here")
    live = Probe(kind="http", path="/page", period_ms=50, failures=2)
    lease = stage.python(SERVE, cwd=str(tmp_path), start=UP, live=live)
    stage.until(lambda: "GET /page" in stage.output(lease, "stderr"))
    stage.until_state(lease, "ready")
    page.unlink()
    stage.until(lambda: bool(stage.failed))
    (failed,) = stage.failed
    assert failed.reason == "failed"
    assert failed.error.startswith("live probe failed: http /page answered 404\n")
    assert "GET /page" in failed.error
    assert "unready" in stage.states(lease)


@pytest.mark.slow
def test_a_replica_that_hears_nothing_any_more_is_ended_by_its_live_probe(
    stage: ServiceStage
) -> None:
    live = Probe(kind="http", period_ms=50, timeout_ms=100, failures=2)
    lease = stage.python(SERVE, start=UP, live=live, grace_ms=0)
    stage.until_state(lease, "ready")
    (pid,) = [each.pid for each in _ours(lease)]
    os.kill(pid, signal.SIGSTOP)
    stage.until(lambda: bool(stage.failed))
    assert stage.failed[0].error.startswith("live probe failed: http /: no answer within 0.1 s")
    assert is_gone(pid)


def test_a_start_probe_holds_the_others_back(stage: ServiceStage, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    start = Probe(kind="exec", argv=("test", "-e", str(begun)), period_ms=60_000)
    live = Probe(kind="exec", argv=("test", "-e", str(begun)), period_ms=20, failures=1)
    lease = stage.python(FOREVER, ports=(), start=start, live=live)
    stage.until(lambda: bool(stage.states(lease)) and bool(stage.why(lease)))
    assert stage.why(lease) == "start probe: exec test exited with code 1"
    begun.touch()
    stage.until_state(lease, "ready")
    assert not stage.failed
    begun.unlink()
    stage.until(lambda: bool(stage.failed))
    assert stage.failed[0].error.startswith("live probe failed: exec test exited with code 1")


@pytest.mark.slow
def test_a_start_that_never_comes_ends_the_replica(stage: ServiceStage) -> None:
    start = Probe(kind="tcp", period_ms=50, failures=2)
    stage.python(FOREVER, start=start)
    stage.until(lambda: bool(stage.failed))
    assert stage.failed[0].error.startswith("start probe failed: tcp 127.0.0.1:")


def test_an_exec_probe_runs_where_the_replica_runs_and_its_secrets_are_not_told(
    stage: ServiceStage,
) -> None:
    asks = 'test -e here && test "$COLOUR" = red && echo "$KEY on ${PORT}" >&2 && exit 4'
    probe = Probe(kind="exec", argv=("sh", "-c", asks), period_ms=50)
    code = "open('here', 'w').close()\n" + FOREVER
    lease = stage.python(code, env={"COLOUR": "red", "KEY": "secret:KEY"}, ready=probe)
    stage.until(lambda: bool(stage.states(lease)) and "exited with code 4" in stage.why(lease))
    port = stage.addresses[lease].rpartition(":")[2]
    assert stage.why(lease) == f"ready probe: exec sh exited with code 4: [secret] on {port}"


@pytest.mark.slow
def test_an_exec_probe_that_takes_too_long_is_ended_with_all_it_started(
    stage: ServiceStage, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    asks = f"sleep 1000 & echo $! $$ > {told}.new; mv {told}.new {told}; wait"
    probe = Probe(kind="exec", argv=("sh", "-c", asks), period_ms=60_000, timeout_ms=300)
    lease = stage.python(FOREVER, ready=probe)
    stage.until(lambda: bool(stage.states(lease)) and bool(stage.why(lease)))
    assert stage.why(lease) == "ready probe: exec sh: no answer within 0.3 s"
    pids = [int(word) for word in told.read_text().split()]
    stage.until(lambda: all(map(is_gone, pids)))


# Ends.


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
def test_a_worker_that_is_left_tells_that_it_is_stopping_before_it_stops(
    stage: ServiceStage, how: str
) -> None:
    lease = stage.python(TALK)
    stage.until_state(lease, "ready")
    stage.is_drained = how == "operator"
    if how == "leaving":
        stage.agent.drain()
    stage.agent.speak_up()
    pid = int(stage.ask(lease))
    while stage.states(lease)[-1] != "stopping":
        # It was told within this exchange, and is not asked to end before that was answered.
        assert psutil.pid_exists(pid)
        stage.turn()
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


def _ours(lease: LeaseId) -> list[psutil.Process]:
    """The processes started under this lease, among our descendants."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            environment = child.environ()
        except psutil.Error:
            continue
        if environment.get("HOLDFAST_LEASE_ID") == str(lease):
            found.append(child)
    return found


def _until_gone(pid: int) -> None:
    try:
        psutil.Process(pid).wait(60)
    except psutil.NoSuchProcess:
        return

"""Services are real programs: they come up late or never, hang, ignore what they are told, are
killed, and leave nothing."""

import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from holdfast.core.ids import LeaseId
from holdfast.testing.service_stage import FOREVER, SERVE, TALK, ServiceStage
from holdfast.wire.service import Probe
from holdfast.wire.servicing import PartitionClaim, PartitionNews
from holdfast.worker import attendant

COUNTING = """
import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    looks = 0
    def do_GET(self):
        Handler.looks += 1
        told = (
            f'http_requests_total{{path="/"}} {1_000 * Handler.looks}\\n'
            f'http_requests_total{{path="/metrics"}} {10**9 * Handler.looks}\\n'
            f'http_request_duration_seconds_count {1_000 * Handler.looks}\\n'
            f'http_request_duration_seconds_sum {20 * Handler.looks}\\n'
        ).encode()
        self.send_response(200)
        self.send_header('content-length', str(len(told)))
        self.end_headers()
        self.wfile.write(told)

http.server.HTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()
"""
# Takes its time to end: until another signal says so, which may come first.
LINGER = """
import os, signal

def linger(*_):
    signal.sigwait([signal.SIGUSR1])
    os._exit(0)

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.signal(signal.SIGTERM, linger)
"""
UP = Probe(kind="tcp", failures=1_000)
PATIENT_MS = 60_000
"""A slow machine is no reason to be unwell."""


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


@pytest.mark.slow
@pytest.mark.parametrize("host", ["a..b", "no.such.host.invalid"])
def test_a_host_that_cannot_be_asked_keeps_it_starting_and_says_so(
    tmp_path: Path, host: str
) -> None:
    stage = ServiceStage(tmp_path / "here", host=host)
    lease = stage.python(TALK)
    stage.until(lambda: bool(stage.states(lease)) and bool(stage.why(lease)))
    assert stage.why(lease).startswith("ready probe: tcp")
    assert set(stage.states(lease)) == {"starting"}
    stage.close()


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
    probe = Probe(kind="http", path="/page", period_ms=50, timeout_ms=PATIENT_MS, failures=2)
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
    live = Probe(kind="http", path="/page", period_ms=50, timeout_ms=PATIENT_MS, failures=2)
    lease = stage.python(LINGER + SERVE, cwd=str(tmp_path), start=UP, live=live)
    stage.until(lambda: "GET /page" in stage.output(lease, "stderr"))
    stage.until_state(lease, "ready")
    page.unlink()
    stage.until_state(lease, "unready")
    assert stage.failed == []
    (process,) = _ours(lease)
    process.send_signal(signal.SIGUSR1)
    stage.until(lambda: bool(stage.failed))
    (failed,) = stage.failed
    assert failed.reason == "failed"
    assert failed.error.startswith("live probe failed: http /page answered 404\n")
    assert "GET /page" in failed.error


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
    asks = Probe(kind="exec", argv=("test", "-e", str(begun)), timeout_ms=PATIENT_MS)
    start = replace(asks, period_ms=60_000)
    live = replace(asks, period_ms=20, failures=1)
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
    # One that was ended before it could tell is followed by another.
    stage.until(told.exists)
    pids = [int(word) for word in told.read_text().split()]
    stage.until(lambda: all(map(is_gone, pids)))


# What they take.


@pytest.mark.slow
def test_processor_and_memory_are_those_of_all_that_a_replica_started(
    stage: ServiceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attendant, "SAMPLE_MS", 200)
    burn = "held = bytearray(50_000_000)\nwhile True: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    lease = stage.python(code, ports=())
    stage.until(lambda: any(each.memory_bytes > 50_000_000 for each in stage.samples))
    stage.until(lambda: any(each.cpu_milli > 100 for each in stage.samples))
    assert {each.lease_id for each in stage.samples} == {lease}
    assert {each.problem for each in stage.samples} == {""}


def test_counters_are_scraped_where_somebody_asked_for_it_and_only_there(
    stage: ServiceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attendant, "SAMPLE_MS", 50)
    lease = stage.python(COUNTING, metrics="/metrics")
    stage.until_state(lease, "ready")
    stage.until(lambda: len(stage.samples) > 1)
    assert {each.requests_per_s for each in stage.samples} == {None}
    began = time.monotonic()
    stage.scrapes = [lease]
    stage.until(lambda: stage.samples[-1].requests_per_s is not None)
    took_s = time.monotonic() - began
    # It says itself how often it was looked at: a thousand requests of 20 ms for every look.
    assert 1_000 / took_s < stage.samples[-1].requests_per_s < 1_000_000
    assert stage.samples[-1].latency_ms == pytest.approx(20)


@pytest.mark.slow
def test_metrics_that_cannot_be_read_are_told_and_cost_nothing_else(
    stage: ServiceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attendant, "SAMPLE_MS", 50)
    lease = stage.python(SERVE, metrics="/nowhere")
    stage.until_state(lease, "ready")
    stage.scrapes = [lease]
    stage.until(lambda: bool(stage.samples) and stage.samples[-1].problem != "")
    assert stage.samples[-1].problem == "metrics: http /nowhere answered 404"
    assert stage.samples[-1].memory_bytes > 0
    assert stage.states(lease)[-1] == "ready"


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


@pytest.mark.slow
def test_what_a_member_says_of_its_partitions_is_told_and_junk_harms_nobody(
    stage: ServiceStage,
) -> None:
    asked = Probe(kind="http", path="/partitions", period_ms=100, timeout_ms=10_000)
    # It counts requests and knows nothing of partitions.
    junk = stage.python(COUNTING, partitions=asked)
    folder = stage.scratch / "told"
    folder.mkdir()
    (folder / "partitions").write_text('{"partitions": [{"name": 0, "members": 1, "ready": 1}]}')
    good = stage.python(f"import os; os.chdir({str(folder)!r})\n{SERVE}", 1, partitions=asked)
    for lease in (junk, good):
        stage.until_state(lease, "ready")

    def told(lease: LeaseId) -> list[PartitionNews]:
        return [news for news in stage.partitions if news.lease_id == lease]

    stage.until(lambda: len(told(junk)) > 1 and len(told(good)) > 2)
    assert {news.claims for news in told(good)} == {(PartitionClaim("0", 1, 1),)}
    assert {news.turn_ms for news in told(good)} == {10_000}
    assert {news.claims for news in told(junk)} == {()}
    assert told(junk)[-1].problem.startswith("http /partitions: no answer about partitions: ")
    assert stage.states(junk)[-1] == "ready"

"""Class runtimes with real processes: up, killed, replaced, scaled, outliving the coordinator, and
gone without a trace."""

import json
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

import holdfast
from holdfast.cli.main import main
from holdfast.client.runtime_wishes import is_up
from holdfast.errors import Refused
from holdfast.testing.fleet import wait_until
from holdfast.testing.loopback import ServerProcess, WorkerProcess

PATIENCE = "120s"
SOON = {"period": "200ms", "failures": 20}
RESTARTS = {"delay": "100ms", "maxDelay": "200ms"}

SERVE = """
import http.server, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        told = sys.argv[2]
        self.send_response(200)
        self.send_header('content-length', str(len(told)))
        self.end_headers()
        self.wfile.write(told.encode())
    def log_message(self, *said):
        pass

http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()
"""
SERVE_SLOWLY = SERVE.replace("end_headers()", "end_headers(); time.sleep(0.3)").replace(
    "import http.server,", "import http.server, time,"
)
"""Whoever is replaced meanwhile leaves an answer behind that breaks off."""
CRASH = "import sys; print('the cupboard is bare', file=sys.stderr); sys.exit(7)"

Run = Callable[..., tuple[int, str, str]]


class Place:
    """A server with one worker, and whatever carries its mark among the processes."""

    def __init__(self, server: ServerProcess) -> None:
        self.mark = f"mark-{server.url}"
        self.server = server

    def function(self, key: str, code: str = SERVE, says: str = "", **more: Any) -> dict[str, Any]:
        command = [sys.executable, "-c", code, self.mark, says or key]
        return {"key": key, "command": command, "health": {"path": "/", **SOON}, **more}

    def manifest(self, *functions: dict[str, Any], **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "oaas.io/v1alpha1",
            "kind": "ClassRuntime",
            "metadata": {"name": "greeter"},
            "spec": {"template": "dev", "functions": list(functions), **spec},
        }

    def processes(self) -> dict[int, str]:
        """Those that run functions of this place: what each says, by process id."""
        found = {}
        # Asked for together: one that has gone when it is looked at is left out.
        for process in psutil.process_iter(["cmdline", "status"]):
            line = process.info["cmdline"] or []
            if self.mark in line and process.info["status"] != psutil.STATUS_ZOMBIE:
                found[process.pid] = line[-1]
        return found

    def connect(self) -> holdfast.Holdfast:
        return holdfast.connect(self.server.url, token_file=self.server.token_file)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with (
        ServerProcess(tmp_path / "served") as server,
        WorkerProcess(server, tmp_path / "worker"),
    ):
        made = Place(server)
        yield made
    wait_until(lambda: not made.processes(), what="a function outlived its worker")


@pytest.fixture
def typed(place: Place, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        server = ("--server", place.server.url, "--token-file", str(place.server.token_file))
        code = main([*arguments, *server])
        return (code, *capsys.readouterr())

    return run


def asked(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/", timeout=30) as answer:
        return str(answer.read().decode())


def test_a_manifest_comes_up_is_reached_in_turn_and_goes_without_a_trace(place: Place) -> None:
    with place.connect() as hf:
        made = hf.runtimes.apply(place.manifest(place.function("hello", replicas=2)))
        assert (made.name, made.change) == ("greeter", "created")
        found = hf.runtimes.wait("greeter", timeout=PATIENCE)
        assert found is not None
        assert found["status"]["functions"][0]["ready_replicas"] == 2
        turn = hf.runtimes.endpoints("greeter", "hello")
        reached = {turn.next() for _ in range(4)}
        assert len(reached) == 2
        assert {asked(address) for address in reached} == {"hello"}
        assert turn.call(asked) == "hello"
        assert "Available" in [each["reason"] for each in hf.runtimes.events("greeter")]
        assert len(place.processes()) == 2
        assert hf.runtimes.delete("greeter") == "deleting"
        assert hf.runtimes.wait("greeter", "deleted", timeout=PATIENCE) is None
        assert not place.processes()
        with pytest.raises(Refused, match="there is no runtime greeter"):
            hf.runtimes.get("greeter")


@pytest.mark.slow
def test_two_functions_with_a_data_grid_come_up_and_a_killed_replica_comes_back(
    place: Place, typed: Run, tmp_path: Path
) -> None:
    grid = {key: value for key, value in place.function("grid").items() if key != "key"}
    functions = (
        place.function("hello", replicas=2, restarts=RESTARTS),
        place.function("bye", restarts=RESTARTS),
    )
    file = tmp_path / "greeter.yaml"
    file.write_text(yaml.safe_dump(place.manifest(*functions, odgm={**grid, "partitions": 4})))
    code, out, said = typed("apply", "-f", str(file), "--wait", "--timeout", PATIENCE)
    assert (code, out) == (0, "runtime/greeter created\n"), said
    assert "greeter is available" in said
    assert sorted(place.processes().values()) == ["bye", "grid", "hello", "hello"]
    victim = next(pid for pid, says in place.processes().items() if says == "bye")
    hf = place.connect()
    # It would be looked up again in an hour: what is seen of the kill was told.
    ring = hf.runtimes.endpoints("greeter", "bye", refresh_s=3_600)
    before = ring.addresses
    assert len(before) == 1
    psutil.Process(victim).kill()
    wait_until(lambda: ring.addresses != before, what="the killed one stays in the ring")
    wait_until(lambda: len(ring.addresses) == 1, what="nobody takes its place in the ring")
    assert ring.call(asked) == "bye"
    hf.close()
    code, _, said = typed("runtime", "wait", "greeter", "--timeout", PATIENCE)
    assert code == 0, said
    back = place.processes()
    assert sorted(back.values()) == ["bye", "grid", "hello", "hello"]
    assert victim not in back
    code, out, said = typed("runtime", "show", "greeter", "-o", "json")
    status = json.loads(out)["status"]
    assert {each["service"] for each in status["routers"]} >= {"greeter--bye", "greeter--hello"}
    assert status["odgm"]["ready"]
    code, _, said = typed("runtime", "wait", "greeter", "--for=phase=degraded", "--timeout", "1ms")
    assert code == 124
    assert "All functions are ready. `holdfast runtime show greeter" in said
    assert typed("runtime", "delete", "greeter", "--wait", "--timeout", PATIENCE)[0] == 0
    code, _, said = typed("runtime", "delete", "greeter")
    assert code == 4
    assert ". `holdfast runtime list" in said


@pytest.mark.slow
def test_a_bad_generation_degrades_with_its_last_lines_and_a_good_one_recovers(
    place: Place, typed: Run
) -> None:
    good = place.function("hello", replicas=2, restarts=RESTARTS)
    with place.connect() as hf:
        hf.runtimes.apply(place.manifest(good))
        hf.runtimes.wait("greeter", timeout=PATIENCE)
        before = place.processes()
        bad = place.function("hello", CRASH, replicas=2, restarts=RESTARTS)
        hf.runtimes.apply(place.manifest(bad))
        found = hf.runtimes.wait("greeter", "phase=degraded", timeout=PATIENCE)
        assert found is not None
        reason = {each["type"]: each["reason"] for each in found["status"]["conditions"]}
        assert reason["Degraded"] == "CrashLoop"
        # The old ones stay up for as long as the new ones do not come.
        assert before.items() <= place.processes().items()
        assert asked(hf.runtimes.endpoints("greeter", "hello").next()) == "hello"
        code, out, _ = typed("runtime", "show", "greeter")
        assert code == 0
        assert "the cupboard is bare" in out
        assert "next: mend the command" in out
        hf.runtimes.apply(place.manifest(place.function("hello", says="better", replicas=2)))
        hf.runtimes.wait("greeter", timeout=PATIENCE)
        wait_until(lambda: set(place.processes().values()) == {"better"})
        hf.runtimes.delete("greeter")
        hf.runtimes.wait("greeter", "deleted", timeout=PATIENCE)


@pytest.mark.slow
def test_a_rollout_in_steps_tells_how_far_it_is_and_somebody_answers_all_the_time(
    place: Place,
) -> None:
    # Long enough for whoever looks now and then on a slow machine.
    steps = {"steps": ["50%", "100%"], "pause": "5s"}
    with place.connect() as hf:
        old = place.function("hello", SERVE_SLOWLY, says="old", replicas=2, rollout=steps)
        hf.runtimes.apply(place.manifest(old))
        hf.runtimes.wait("greeter", timeout=PATIENCE)
        turn = hf.runtimes.endpoints("greeter", "hello", refresh_s=0.1)
        answers, told = {turn.call(asked)}, set()
        new = place.function("hello", SERVE_SLOWLY, says="new", replicas=2, rollout=steps)
        hf.runtimes.apply(place.manifest(new))

        def is_over() -> bool:
            answers.add(turn.call(asked))
            found = hf.runtimes.get("greeter")
            for function in found["status"]["functions"]:
                rollout = function["rollout"] or {"step": 0, "steps": 0}
                told.add((rollout["step"], rollout["steps"]))
            return is_up(found)

        wait_until(is_over, 120)
        assert answers == {"old", "new"}
        assert (1, 2) in told
        wait_until(lambda: set(place.processes().values()) == {"new"})
        hf.runtimes.delete("greeter")
        hf.runtimes.wait("greeter", "deleted", timeout=PATIENCE)


@pytest.mark.slow
def test_functions_that_come_and_go_leave_no_orphan(place: Place) -> None:
    with place.connect() as hf:
        for keys in (("a", "b"), ("a", "b", "c", "d", "e"), ("e",)):
            hf.runtimes.apply(place.manifest(*(place.function(key) for key in keys)))
            found = hf.runtimes.wait("greeter", timeout=PATIENCE)
            assert found is not None
            told = [each["function_key"] for each in found["status"]["functions"]]
            assert told == list(keys)
            wait_until(lambda keys=keys: sorted(place.processes().values()) == list(keys))

        def children() -> set[str]:
            kept = hf.runtimes.get("greeter")["status"]["resource_refs"]
            return {each["name"] for each in kept}

        wait_until(lambda: children() == {"greeter--e"}, what="an orphan is still known")
        hf.runtimes.delete("greeter")
        hf.runtimes.wait("greeter", "deleted", timeout=PATIENCE)


@pytest.mark.slow
def test_a_coordinator_that_is_killed_finds_everything_up_and_starts_nothing_twice(
    place: Place,
) -> None:
    with place.connect() as hf:
        hf.runtimes.apply(place.manifest(place.function("hello", replicas=3)))
        hf.runtimes.wait("greeter", timeout=PATIENCE)
        before = place.processes()
        place.server.kill()
        assert place.processes() == before
        place.server.start()
        found = hf.runtimes.wait("greeter", timeout=PATIENCE)
        assert found is not None
        # A change makes the loop look at all of it.
        hf.runtimes.apply(place.manifest(place.function("hello", replicas=4)))
        hf.runtimes.wait("greeter", timeout=PATIENCE)
        after = place.processes()
        assert before.items() <= after.items()
        assert len(after) == 4
        hf.runtimes.delete("greeter")
        hf.runtimes.wait("greeter", "deleted", timeout=PATIENCE)


@pytest.mark.slow
def test_a_port_that_never_opens_is_a_timeout_and_says_who_is_waited_for(
    place: Place, typed: Run
) -> None:
    never = place.function("hello", "import time; time.sleep(3600)", grace="1s")
    with place.connect() as hf:
        hf.runtimes.apply(place.manifest(never, timeouts={"progress": "2s"}))
        found = hf.runtimes.wait("greeter", "phase=degraded", timeout=PATIENCE)
        assert found is not None
        told = {each["type"]: each for each in found["status"]["conditions"]}["Degraded"]
        assert told["reason"] == "Timeout"
        assert "Readiness not achieved within 2s" in told["message"]
        assert "hello" in told["message"]
        assert "Timeout" in typed("runtime", "events", "greeter")[1]
        assert typed("runtime", "delete", "greeter", "--wait", "--timeout", PATIENCE)[0] == 0


@pytest.mark.slow
def test_one_that_is_deleted_on_its_way_goes_at_once(place: Place) -> None:
    never = place.function("hello", "import time; time.sleep(3600)", grace="1s")
    with place.connect() as hf:
        hf.runtimes.apply(place.manifest(never))
        hf.runtimes.wait("greeter", "phase=progressing", timeout=PATIENCE)
        hf.runtimes.delete("greeter")
        with pytest.raises(Refused, match=r"being deleted|no runtime"):
            hf.runtimes.wait("greeter", timeout=PATIENCE)
        assert hf.runtimes.wait("greeter", "deleted", timeout=PATIENCE) is None


LOADED = """
import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0
    def do_GET(self):
        Handler.asked += 1
        told = f'http_requests_total {1_000 * Handler.asked}\\n'.encode()
        self.send_response(200)
        self.send_header('content-length', str(len(told)))
        self.end_headers()
        self.wfile.write(told)
    def log_message(self, *said):
        pass

http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()
"""
"""Tells that it takes a thousand requests from look to look, however few really come."""

LOOKS = 2
"""So many more looks at the load are waited for; each comes ten seconds after the last."""


@pytest.mark.slow
def test_load_on_a_function_makes_enforcement_scale_it_up_once_and_hold(place: Place) -> None:
    busy = place.function("busy", LOADED, metrics={"path": "/metrics"})
    nfr = {
        "mode": "enforce", "minThroughputRps": 100, "maxReplicas": 2, "stability": "2s",
        "cooldown": "3s", "staleAfter": "20s", "minConfidence": 0.1,
    }  # fmt: skip
    with place.connect() as hf:
        hf.runtimes.apply(place.manifest(busy, nfr=nfr))
        hf.runtimes.wait("greeter", timeout=PATIENCE)
        hf.runtimes.wait("greeter", "condition=NfrEnforced", timeout=PATIENCE)
        found = hf.runtimes.wait("greeter", timeout=PATIENCE)
        assert found is not None
        (applied,) = found["status"]["last_applied_recommendations"]
        assert (applied["dimension"], found["status"]["last_applied_at"] is None) == (
            "replicas", False,
        )  # fmt: skip
        assert applied["target"] == 2
        wait_until(lambda: len(place.processes()) == 2)
        assert found["metadata"]["generation"] == 1
        held = set(place.processes())
        # The load stays, and is looked at again and again, for several cooldowns.
        moments: set[str] = set()

        def looks() -> int:
            advice = hf.runtimes.get("greeter")["status"]["nfr_recommendations"]
            moments.add(advice["replicas/busy"]["observed_at"])
            return len(moments)

        wait_until(lambda: looks() > LOOKS, 120, what="it is looked at again and again")
        assert set(place.processes()) == held
        found = hf.runtimes.get("greeter")
        assert found["status"]["last_applied_recommendations"] == [applied]
        reasons = [each["reason"] for each in hf.runtimes.events("greeter")]
        assert reasons.count("NFRApplied") == 1
        hf.runtimes.delete("greeter")
        hf.runtimes.wait("greeter", "deleted", timeout=PATIENCE)


def test_a_folder_that_a_program_opened_itself_keeps_nothing_up_and_says_who_does(
    tmp_path: Path,
) -> None:
    with (
        holdfast.open(tmp_path / "own") as hf,
        pytest.raises(Refused, match="`holdfast serve`"),
    ):
        hf.runtimes.list()

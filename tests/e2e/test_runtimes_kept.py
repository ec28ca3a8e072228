"""Class runtimes with real processes: they come up, stay up, are changed, and leave nothing."""

import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import psutil
import pytest

from holdfast.testing.loopback import ServerProcess, WorkerProcess

LOOKS = 60
GONE = 404


class Kept:
    """A server and two workers. Every replica names the folder in its arguments, so that it is
    known among all processes."""

    def __init__(self, folder: Path) -> None:
        self.marker = str(folder / "www")
        Path(self.marker).mkdir()
        self.server = ServerProcess(folder)
        self.server.start()
        self.workers = [
            WorkerProcess(self.server, folder / name, "--name", name, "--slots", "8")
            for name in ("w0", "w1")
        ]
        for worker in self.workers:
            worker.start()

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        self.server.kill()
        self.server.stop()

    def serve(self, key: str, **more: Any) -> dict[str, Any]:
        command = ["python3", "-m", "http.server", "--directory", self.marker, "$PORT"]
        health = {"path": "/", "period": "100ms"}
        restarts = {"delay": "100ms"}
        return {"key": key, "command": command, "health": health, "restarts": restarts, **more}

    def apply(self, *functions: dict[str, Any], **spec: Any) -> int:
        """The generation that was declared."""
        content = {
            "apiVersion": "oaas.io/v1alpha1",
            "kind": "ClassRuntime",
            "metadata": {"name": "greeter"},
            "spec": {"template": "dev", "functions": list(functions), **spec},
        }
        told = self.ask("POST", "/runtimes", content)
        generation: int = told["runtime"]["metadata"]["generation"]
        return generation

    def until(self, phase: str, generation: int) -> dict[str, Any]:
        """The runtime once it is there."""
        version = 0
        for _ in range(LOOKS):
            told = self.ask("GET", f"/runtimes/greeter?wait=5s&version={version}")
            status = told["status"]
            if status["phase"] == phase and status["observedGeneration"] == generation:
                return told
            version = told["metadata"]["resourceVersion"]
        raise AssertionError(f"it never was {phase}: {status}")

    def until_gone(self) -> None:
        version = 0
        for _ in range(LOOKS):
            try:
                told = self.ask("GET", f"/runtimes/greeter?wait=5s&version={version}")
            except HTTPError as error:
                if error.code == GONE:
                    return
                raise
            version = told["metadata"]["resourceVersion"]
        raise AssertionError("it does not go")

    def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        host = self.server.url.removeprefix("http://")
        request = urllib.request.Request(
            f"http://{host}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "authorization": f"Bearer {self.server.token}",
                "content-type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - it is HTTP
            told: dict[str, Any] = json.loads(answer.read())
            return told

    def processes(self) -> set[int]:
        """The replicas that really run."""
        found = set()
        for process in psutil.process_iter(["cmdline"]):
            if self.marker in (process.info["cmdline"] or ()):
                found.add(process.pid)
        return found


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path)
    try:
        yield kept
    finally:
        kept.close()


@pytest.mark.slow
def test_functions_and_a_data_grid_come_up_survive_kills_and_leave_no_process(kept: Kept) -> None:
    odgm = kept.serve("")
    del odgm["key"]
    functions = (kept.serve("hello", replicas=2), kept.serve("bye"))
    generation = kept.apply(*functions, odgm={**odgm, "partitions": 4})
    told = kept.until("available", generation)
    addresses = [address for each in told["status"]["routers"] for address in each["addresses"]]
    assert len(addresses) == len(set(addresses)) == 4
    for address in addresses:
        with urllib.request.urlopen(f"http://{address}/", timeout=30) as answer:
            assert answer.status == 200
    before = kept.processes()
    assert len(before) == 4
    # One is killed, and another comes in its place.
    os.kill(min(before), signal.SIGKILL)
    version = told["metadata"]["resourceVersion"]
    kept.ask("GET", f"/runtimes/greeter?wait=30s&version={version}")
    kept.until("available", generation)
    after = kept.processes()
    assert len(after) == 4
    assert len(before & after) == 3
    # The server is killed: everything goes on, and nothing is started twice.
    kept.server.kill()
    assert kept.processes() == after
    kept.server.start()
    kept.until("available", generation)
    assert kept.processes() == after
    kept.ask("DELETE", "/runtimes/greeter")
    kept.until_gone()
    assert kept.processes() == set()


@pytest.mark.slow
def test_a_bad_generation_degrades_with_its_last_words_and_a_good_one_recovers(kept: Kept) -> None:
    kept.until("available", kept.apply(kept.serve("hello", replicas=2)))
    before = kept.processes()
    code = "print('no settings for the greeter', flush=True); raise SystemExit(3)"
    bad = kept.serve("hello", replicas=2)
    bad["command"] = ["python3", "-c", code]
    told = kept.until("degraded", kept.apply(bad))
    degraded = next(
        each for each in told["status"]["conditions"] if each["type"] == "Degraded"
    )
    assert degraded["reason"] == "CrashLoop"
    assert "no settings for the greeter" in degraded["message"]
    assert before <= kept.processes()
    good = kept.apply(kept.serve("hello", replicas=2, env={"GOOD": "1"}))
    kept.until("available", good)
    assert len(kept.processes() - before) == 2


@pytest.mark.slow
def test_functions_that_come_and_go_leave_no_process(kept: Kept) -> None:
    for count in (2, 5, 1):
        generation = kept.apply(*(kept.serve(key) for key in "abcde"[:count]))
        told = kept.until("available", generation)
        for _ in range(LOOKS):
            refs = [each["kind"] for each in told["status"]["resource_refs"]]
            if refs.count("Deployment") == count:
                break
            version = told["metadata"]["resourceVersion"]
            told = kept.ask("GET", f"/runtimes/greeter?wait=5s&version={version}")
        assert len(kept.processes()) == count
    kept.ask("DELETE", "/runtimes/greeter")
    kept.until_gone()
    assert kept.processes() == set()

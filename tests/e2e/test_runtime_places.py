"""Where runtimes run, with real workers: all of `dev` on one, `edge` over several."""

import sys
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.testing.fleet import wait_until
from holdfast.testing.loopback import ServerProcess, WorkerProcess
from holdfast.wire.http import Http, Server

PATIENCE_S = 120
PATIENCE = f"{PATIENCE_S}s"
# One that the machine keeps waiting for a while is not taken for one that was killed.
TERM = ("--lease-term", "10s")
NAMES = ("w1", "w2")


def manifest(name: str, template: str, replicas: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "$PORT"]
    restarts = {"delay": "100ms", "maxDelay": "200ms"}
    function = {"key": "hello", "command": command, "replicas": replicas, "restarts": restarts}
    return {
        "apiVersion": "oaas.io/v1alpha1",
        "kind": "ClassRuntime",
        "metadata": {"name": name},
        "spec": {"template": template, "functions": [function]},
    }


def asked(server: ServerProcess, path: str) -> Any:
    with closing(Http(Server(url=server.url, token=server.token))) as http:
        return http.get(f"/api/v1/{path}", dict)


def homes(server: ServerProcess) -> dict[str, int]:
    """How many replicas can be reached on each worker."""
    return dict(Counter(each["worker"] for each in asked(server, "endpoints")["endpoints"]))


def present(server: ServerProcess) -> set[str]:
    return {each["name"] for each in asked(server, "workers")["workers"] if each["state"] == "IDLE"}


@pytest.mark.slow
def test_dev_is_on_one_worker_and_moves_when_it_is_killed_and_edge_is_spread(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path / "served", *TERM) as server, ExitStack() as stack:
        workers = {
            name: WorkerProcess(server, tmp_path / name, "--name", name, "--slots", "3")
            for name in NAMES
        }
        for worker in workers.values():
            stack.enter_context(worker)
        hf = stack.enter_context(holdfast.connect(server.url, token_file=server.token_file))
        hf.runtimes.apply(manifest("dev", "dev", 3))
        hf.runtimes.wait("dev", timeout=PATIENCE)
        (home,) = homes(server)
        assert homes(server) == {home: 3}
        workers[home].kill()
        (other,) = set(NAMES) - {home}
        wait_until(
            lambda: homes(server) == {other: 3},
            PATIENCE_S,
            what="it does not move to the other worker",
        )
        hf.runtimes.wait("dev", timeout=PATIENCE)
        hf.runtimes.delete("dev")
        hf.runtimes.wait("dev", "deleted", timeout=PATIENCE)
        workers[home].start()
        wait_until(
            lambda: present(server) == set(NAMES), PATIENCE_S, what="it does not come back"
        )
        hf.runtimes.apply(manifest("edge", "edge", 4))
        hf.runtimes.wait("edge", timeout=PATIENCE)
        assert homes(server) == dict.fromkeys(NAMES, 2)

"""A data grid of real processes that tell of their partitions: up, red, well again, larger member
by member, and smaller no further than its majority allows, unless a person says so."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.client.runtime_wishes import is_up
from holdfast.testing.fleet import wait_until
from holdfast.testing.loopback import ServerProcess, WorkerProcess

PATIENCE_S = 120
SOON = {"path": "/", "period": "200ms", "failures": 20}

# The members find each other by the files in a folder that they share. A partition that has a
# file called red-NAME there is short of one member.
MEMBER = """
import http.server, json, os, pathlib, signal, sys, threading

folder = pathlib.Path(sys.argv[1])
mine = folder / f'member-{os.environ["PORT"]}'

def told():
    count = len(list(folder.glob('member-*')))
    return {'partitions': [
        {'name': str(n), 'members': count, 'ready': count - (folder / f'red-{n}').exists(),
         'leader': (folder / 'leader').read_text(), 'term': 7}
        for n in range(int(os.environ['ODGM_PARTITIONS']))
    ]}

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(told() if self.path == '/partitions' else 'up').encode()
        self.send_response(200)
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *said):
        pass

server = http.server.ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler)

def leave(*_):
    mine.unlink()
    threading.Thread(target=server.shutdown).start()

signal.signal(signal.SIGTERM, leave)
mine.touch()
server.serve_forever()
"""


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for every word of a table."""
    monkeypatch.setenv("COLUMNS", "250")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with (
        ServerProcess(tmp_path / "served") as server,
        WorkerProcess(server, tmp_path / "worker"),
    ):
        yield server


def manifest(folder: Path, **nfr: Any) -> dict[str, Any]:
    command = [sys.executable, "-c", MEMBER, str(folder)]
    health = {"period": "200ms", "timeout": "10s", "leaderSteady": "1s"}
    grid = {"command": command, "partitions": 2, "health": SOON, "partitionHealth": health}
    serve = [sys.executable, "-m", "http.server", "$PORT"]
    spec = {
        "template": "dev",
        "functions": [{"key": "hello", "command": serve, "replicas": 0}],
        "odgm": grid,
        "timeouts": {"progress": "3s"},
    }
    if nfr:
        spec["nfr"] = {
            "mode": "enforce", "dimensions": ["odgm_replicas"], "maxReplicas": 3,
            "stability": "1s", "cooldown": "1s", "analyzer": {"static": nfr},
        }  # fmt: skip
    return {
        "apiVersion": "oaas.io/v1alpha1",
        "kind": "ClassRuntime",
        "metadata": {"name": "greeter"},
        "spec": spec,
    }


class Seen:
    """The runtime, looked at again and again."""

    def __init__(self, hf: holdfast.Holdfast) -> None:
        self.hf = hf

    def look(self) -> dict[str, Any]:
        return self.hf.runtimes.get("greeter")

    def size(self) -> int:
        """Of its data grid, as it was told to be."""
        return int(self.look()["status"]["odgm"]["desired"])

    def enforced(self) -> list[int]:
        """All that was enforced of it, one after the other."""
        applied = self.look()["status"]["last_applied_recommendations"]
        return [each["target"] for each in applied]

    def is_up(self) -> bool:
        return is_up(self.look())

    def condition(self, kind: str) -> dict[str, Any]:
        conditions = self.look()["status"]["conditions"]
        return next((each for each in conditions if each["type"] == kind), {"message": ""})

    def says(self, kind: str, words: str) -> bool:
        return words in str(self.condition(kind)["message"])


@pytest.mark.slow
def test_002_167_a_grid_of_real_members_follows_its_partitions_and_keeps_its_majority(
    server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "grid"
    folder.mkdir()
    (folder / "leader").write_text("first")

    def shown() -> str:
        capsys.readouterr()
        at = ("--server", server.url, "--token-file", str(server.token_file))
        assert main(["runtime", "show", "greeter", *at]) == 0
        return capsys.readouterr().out

    with holdfast.connect(server.url, token_file=server.token_file) as hf:
        seen = Seen(hf)
        hf.runtimes.apply(manifest(folder))
        wait_until(seen.is_up, PATIENCE_S)
        # On a slow machine what members said may be too old to count for a moment.
        wait_until(lambda: seen.look()["status"]["odgm"]["healthy_partitions"] == 2, PATIENCE_S)
        wait_until(lambda: "2 of 2 partitions healthy" in shown(), PATIENCE_S)

        (folder / "red-1").touch()
        wait_until(lambda: seen.look()["status"]["phase"] == "degraded", PATIENCE_S)
        assert seen.condition("Degraded")["reason"] == "Timeout"
        wait_until(lambda: seen.says("Ready", "odgm: partition 1 has 0 of 1 ready"), PATIENCE_S)
        wait_until(lambda: "1 of 2 partitions healthy" in shown(), PATIENCE_S)
        (folder / "red-1").unlink()
        wait_until(seen.is_up, PATIENCE_S)

        hf.runtimes.apply(manifest(folder, odgm_replicas=3))
        wait_until(lambda: seen.condition("NfrEnforced")["reason"] == "Enforced", PATIENCE_S)
        wait_until(seen.is_up, PATIENCE_S)
        assert seen.enforced() == [2, 3]
        wait_until(lambda: seen.look()["status"]["odgm"]["ready_replicas"] == 3, PATIENCE_S)
        assert len(list(folder.glob("member-*"))) == 3

        hf.runtimes.apply(manifest(folder, odgm_replicas=1))
        held = "odgm_replicas=1: 1 of 2 replicas are no majority"
        wait_until(lambda: seen.says("NfrEnforced", held), PATIENCE_S)
        assert seen.enforced() == [2, 3, 2]
        wait_until(lambda: held in shown(), PATIENCE_S)
        wait_until(lambda: len(list(folder.glob("member-*"))) == 2, PATIENCE_S)

        # A person who wants it that small gets it, but not while a partition is red.
        (folder / "red-0").touch()
        wait_until(lambda: not seen.is_up(), PATIENCE_S)
        hf.runtimes.apply(manifest(folder))
        held = "2 replicas, 1 declared: it waits, partition 0 has 1 of 2 ready"
        wait_until(lambda: held in seen.look()["status"]["odgm"]["message"], PATIENCE_S)
        wait_until(lambda: held in shown(), PATIENCE_S)
        (folder / "red-0").unlink()
        wait_until(lambda: seen.is_up() and seen.size() == 1, PATIENCE_S)
        assert seen.enforced()[:3] == [2, 3, 2]
        hf.runtimes.delete("greeter")
        hf.runtimes.wait("greeter", "deleted", timeout=f"{PATIENCE_S}s")
    assert not list(folder.glob("member-*"))

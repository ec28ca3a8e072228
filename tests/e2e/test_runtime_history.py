"""What happened to runtimes outlives the server that saw it."""

import json
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.testing.fleet import wait_until
from holdfast.testing.loopback import ServerProcess

MANIFEST = {
    "apiVersion": "oaas.io/v1alpha1",
    "kind": "ClassRuntime",
    "metadata": {"name": "greeter"},
    "spec": {"template": "dev", "functions": [{"key": "hello", "command": ["serve"]}]},
}


def watched(server: ServerProcess, since: int) -> list[tuple[str, Any]]:
    """What a listener that saw `since` last is told at once: events and what they are about."""
    connection = HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    headers = {"Authorization": f"Bearer {server.token}", "Last-Event-ID": str(since)}
    with closing(connection):
        connection.request("GET", "/api/v1/watch/runtimes", headers=headers)
        answer = connection.getresponse()
        found: list[tuple[str, Any]] = []
        kind = ""
        while kind != "synced" or not found or found[-1][0] != "synced":
            line = answer.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((kind, json.loads(line.removeprefix("data: "))))
        return found


@pytest.mark.slow
def test_after_a_kill_the_server_still_tells_what_happened_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ServerProcess(tmp_path / "served") as server:
        with holdfast.connect(server.url, token_file=server.token_file) as hf:
            hf.runtimes.apply(MANIFEST)
            hf.runtimes.wait("greeter", "phase=progressing", timeout="60s")
            wait_until(lambda: len(hf.runtimes.events("greeter")) == 4, what="it is not told")
            before = hf.runtimes.events("greeter")
            version = hf.runtimes.get("greeter")["metadata"]["resourceVersion"]
            server.kill()
            server.start()
            after = hf.runtimes.events("greeter")
            assert [each["reason"] for each in after] == [
                "Declared", "Applying", "Applied", "AwaitingReadiness",
            ]  # fmt: skip
            for then, now in zip(before, after, strict=True):
                assert (then["reason"], then["message"]) == (now["reason"], now["message"])
                # What was told is recorded a moment later, and clocks are read twice.
                assert then["first_at"][:16] <= now["first_at"][:16]
            # A listener that comes back is told nothing again that it has seen.
            assert [kind for kind, _ in watched(server, 0)] == ["runtime", "synced"]
            assert watched(server, version) == [("synced", {"names": ["greeter"]})]
            # What happens now goes on from there, and a change is a change to who was away.
            hf.runtimes.apply({**MANIFEST, "metadata": {"name": "greeter", "labels": {"a": "b"}}})
            assert hf.runtimes.events("greeter")[-1]["reason"] == "Labelled"
            assert [kind for kind, _ in watched(server, version)] == ["runtime", "synced"]
        told = [each["reason"] for each in after]
    capsys.readouterr()
    data = str(tmp_path / "served" / "data")
    assert main(["runtime", "events", "greeter", "--data", data, "-o", "json"]) == 0
    kept = json.loads(capsys.readouterr().out)["events"]
    assert [each["reason"] for each in kept] == [*told, "Labelled"]

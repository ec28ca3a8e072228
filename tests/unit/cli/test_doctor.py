"""`holdfast doctor`: every finding is true, and what is not good has a command to type next."""

import json
import os
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import holdfast
from holdfast.cli import looking
from holdfast.version import VERSION

READY = {"status": "ok", "checks": {"log": "ok", "snapshots": "ok"}}

DISK = {"free": 3 * 1024**3, "total": 1024**4, "low": 1024**3, "stop": 1024**2, "short": ""}


class Played(ThreadingHTTPServer):
    """A server that says what the test wants it to say."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "/api/v1/livez": {},
            "/api/v1/readyz": READY,
            "/api/v1/doctor": {"check": None, "disk": DISK},
            "/api/v1/version": {"version": VERSION},
            "/api/v1/workers": {"workers": []},
            "/api/v1/effects": {"effects": [], "next": None},
        }
        super().__init__(("127.0.0.1", 0), Answering)


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = self.server.answers.get(self.path.partition("?")[0], None)
        status = answer if isinstance(answer, int) else 200
        content = json.dumps({} if status != 200 else answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    server = Played()
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setenv("HOLDFAST_SERVER", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("holdfast.cli.asking.PATIENCE_S", 0.0)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def findings(run, *options: object) -> tuple[int, dict[str, Any]]:
    done = run("doctor", *options, "-o", "json")
    checks = json.loads(done.out)["checks"]
    for check in checks:
        assert bool(check["next"]) == (check["state"] != "GOOD"), check
    return done.code, {check["name"]: check for check in checks}


def worker(name: str, version: str, state: str = "IDLE") -> dict[str, Any]:
    return {"name": name, "state": state, "version": version}


def test_a_server_that_is_well_is_found_well(run, played: Played) -> None:
    played.answers["/api/v1/workers"] = {"workers": [worker("w1", VERSION)]}
    code, found = findings(run)
    assert code == 0
    assert {check["state"] for check in found.values()} == {"GOOD"}
    assert {"server", "health", "token", "version", "workers", "versions"} <= set(found)


def test_workers_of_another_version_are_named(run, played: Played) -> None:
    told = [worker("w1", VERSION), worker("old", "0.0.1"), worker("older", "0.0.1")]
    played.answers["/api/v1/workers"] = {"workers": told}
    code, found = findings(run)
    assert (code, found["versions"]["state"]) == (0, "POOR")
    assert "2 of 0.0.1 (old, older)" in found["versions"]["told"]
    assert found["versions"]["next"] == "holdfast worker drain old"


def test_what_the_server_says_of_its_health_is_told(run, played: Played) -> None:
    failed = {"status": "ok", "checks": {"log": "ok", "snapshots": "the last one failed: full"}}
    played.answers["/api/v1/readyz"] = failed
    assert findings(run)[1]["health"]["state"] == "POOR"
    played.answers["/api/v1/readyz"] = 503
    code, found = findings(run)
    assert (code, found["health"]["state"]) == (75, "BAD")


def test_a_token_that_does_not_open_it_is_told_by_its_own_code(run, played: Played) -> None:
    played.answers["/api/v1/version"] = 401
    code, found = findings(run)
    assert (code, found["token"]["state"]) == (6, "BAD")


def test_a_token_that_others_can_read_is_bad(run, played: Played, home: Path) -> None:
    file = home / "config" / "holdfast" / "token"
    file.parent.mkdir(parents=True)
    file.write_text("hf_a_b\n")
    file.chmod(0o644)
    code, found = findings(run)
    assert (code, found["token file"]["next"]) == (1, f"chmod 600 {file}")
    file.chmod(0o600)
    assert findings(run)[1]["token file"]["state"] == "GOOD"


def test_a_port_that_is_free_or_taken_is_told_apart(
    run, nobody_there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The fixture has the port without listening.
    code, found = findings(run)
    assert (code, found["server"]["state"], found["server"]["next"]) == (1, "BAD", "holdfast serve")
    assert found["port"]["state"] == "BAD"
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        port = door.getsockname()[1]
    monkeypatch.setenv("HOLDFAST_SERVER", f"http://127.0.0.1:{port}")
    code, found = findings(run)
    assert (code, found["port"]["state"]) == (75, "GOOD")


def test_a_folder_needs_no_server(run, nobody_there: str, folder: Path) -> None:
    code, found = findings(run, "--data", folder)
    assert found["server"]["state"] == "POOR"
    assert found["history"]["told"].startswith("whole up to position ")
    assert "nobody" in found["owner"]["told"]
    assert found["space"]["state"] in ("GOOD", "POOR")
    assert found["drift"]["state"] == "GOOD"
    assert code == 1, "the port is taken by the fixture"
    code, found = findings(run, "--data", folder, "--server", nobody_there)
    assert found["server"]["state"] == "BAD"


def test_a_folder_with_a_flipped_bit_is_bad(run, nobody_there: str, folder: Path) -> None:
    segment = next((folder / "wal").glob("*.seg"))
    content = bytearray(segment.read_bytes())
    content[200] ^= 1
    segment.write_bytes(content)
    code, found = findings(run, "--data", folder)
    assert (code, found["history"]["state"]) == (1, "BAD")
    assert found["history"]["next"] == f"holdfast log verify {folder}"
    # Nothing else can be looked at for that reason, and that reason is told once.
    others = [found[name] for name in ("results", "effects", "drift")]
    assert {(each["state"], each["told"]) for each in others} == {
        ("BAD", "not looked at: see history")
    }


def test_a_large_result_that_the_disk_lost_is_bad(run, nobody_there: str, tmp_path: Path) -> None:
    with holdfast.open(tmp_path, workers=1) as hf:
        hf.submit(bytes, 100_000).result(30)
    found = findings(run, "--data", tmp_path)[1]["results"]
    assert (found["state"], found["told"][:12]) == ("GOOD", "1 large ones")
    [file] = (tmp_path / "results").glob("*/*")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    code, checks = findings(run, "--data", tmp_path)
    assert (code, checks["results"]["state"]) == (1, "BAD")
    told = f"1 of 1 large results are lost, the first: {file} is damaged"
    assert told in checks["results"]["told"]


def test_folders_without_a_log_and_none_at_all_are_told(
    run, nobody_there: str, tmp_path: Path
) -> None:
    assert findings(run, "--data", tmp_path)[1]["history"]["state"] == "POOR"
    code, found = findings(run, "--data", tmp_path / "nowhere")
    assert (code, found["data"]["state"]) == (1, "BAD")


def test_a_folder_that_cannot_be_written_is_bad(
    run, nobody_there: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(looking.tempfile, "TemporaryFile", refuse)
    found = findings(run, "--data", folder)[1]
    assert (found["disk"]["state"], found["disk"]["next"]) == ("BAD", f"ls -ld {folder}")


def test_whether_memory_can_be_capped_is_tried(
    run, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert findings(run)[1]["memory cap"]["state"] == "GOOD"
    monkeypatch.setattr(looking, "_capped", lambda: None)
    assert findings(run)[1]["memory cap"]["state"] == "POOR"


PARKED = {"id": "3/0.0", "why": "2 tries failed, the last with: no answer"}


def test_what_is_parked_is_named_with_what_to_type(run, played):
    played.answers["/api/v1/effects"] = {"effects": [PARKED], "next": None}
    told = run("doctor", "-o", "json")
    (found,) = [each for each in json.loads(told.out)["checks"] if each["name"] == "effects"]
    assert found["state"] == "POOR"
    assert "3/0.0" in found["told"]
    assert "no answer" in found["told"]
    assert found["next"] == "holdfast effect show 3/0.0"


def test_to_owe_something_is_no_illness(run, played):
    checks = {**READY["checks"], "owed": "2 entries are owed"}
    played.answers["/api/v1/readyz"] = {"status": "ok", "checks": checks}
    told = json.loads(run("doctor", "-o", "json").out)["checks"]
    (health,) = [each for each in told if each["name"] == "health"]
    assert health["state"] == "GOOD"
    assert "owed 2 entries are owed" in health["told"]


def test_a_server_that_knows_nothing_of_effects_is_not_blamed(run, played):
    played.answers["/api/v1/effects"] = 404
    told = json.loads(run("doctor", "-o", "json").out)["checks"]
    (found,) = [each for each in told if each["name"] == "effects"]
    assert found["state"] == "GOOD"


def doctored(run, played, **told: Any) -> dict[str, Any]:
    played.answers["/api/v1/doctor"] = {"check": None, "disk": DISK, **told}
    shown = run("doctor", "-o", "json")
    return {each["name"]: each for each in json.loads(shown.out)["checks"]} | {"": shown.code}


def test_what_a_check_of_the_server_found_is_an_exit_code(run, played):
    check = {"position": 9, "at": "2026-01-01T00:00:00Z", "seconds": 1, "violations": []}
    told = doctored(run, played, check=check)
    assert (told["invariants"]["state"], told[""]) == ("GOOD", 0)
    told = doctored(run, played, check={**check, "violations": ["J1 3: cell 9", "S2 3/1: x"]})
    assert (told["invariants"]["state"], told[""]) == ("BAD", 1)
    assert "2 things were wrong up to position 9" in told["invariants"]["told"]
    assert "the first: J1 3: cell 9" in told["invariants"]["told"]
    assert told["invariants"]["next"] == "holdfast doctor --repair --dry-run"


@pytest.mark.parametrize(
    ("short", "state", "code"), [("", "GOOD", 0), ("disk_low", "POOR", 0), ("disk_full", "BAD", 1)]
)
def test_a_disk_without_room_is_told(run, played, short, state, code):
    told = doctored(run, played, disk={**DISK, "short": short})
    assert (told["room"]["state"], told[""]) == (state, code)
    assert "3.0 GiB" in told["room"]["told"] or "3Gi" in told["room"]["told"]


def a_folder(path: Path) -> Path:
    """A log with what a maker of snapshots left behind when it died, long ago."""
    with holdfast.open(path):
        pass
    half = path / "snapshots" / "00000000000000000099.tmp"
    half.parent.mkdir(exist_ok=True)
    half.write_bytes(b"half")
    os.utime(half, (10**9, 10**9))
    return half


def test_001_05_a_folder_is_repaired_after_a_look_and_a_yes(run, tmp_path):
    half = a_folder(tmp_path / "state")
    where = ("--data", str(tmp_path / "state"))
    looked = run("doctor", *where, "--repair", "--dry-run", "-o", "json")
    (found,) = json.loads(looked.out)["repairs"]
    assert (looked.code, found["kind"], found["deed"]) == (0, "leftover", "remove it")
    assert half.exists()
    refused = run("doctor", *where, "--repair")
    assert (refused.code, half.exists()) == (2, True)
    assert "add --yes if that is meant" in refused.err
    mended = run("doctor", *where, "--repair", "--yes", "--reason", "tidy", "-o", "json")
    assert mended.code == 0
    assert json.loads(mended.out)["repairs"][0]["deed"] == "it was removed"
    assert not half.exists()
    told = run("transactions", *where, "-o", "json")
    (record,) = [
        each for each in json.loads(told.out)["transactions"] if each["command"] == "RecordRepair"
    ]
    assert record["reason"] == "tidy"
    assert record["actions"][0]["action"] == "repaired"
    again = run("doctor", *where, "--repair", "--yes")
    assert "nothing to mend" in again.err


def test_words_that_go_with_repair_are_refused_without_it(run):
    told = run("doctor", "--dry-run")
    assert (told.code, "go with --repair" in told.err) == (2, True)

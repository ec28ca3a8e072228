"""`holdfast serve` as a process: killed, restarted, repeated to, drained."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

import psutil
import pytest

PATIENCE_S = 60


class Server:
    """A server of its own on a free port, and the requests that curl would make."""

    def __init__(self, folder: Path, *options: str, listen: str = "127.0.0.1:0") -> None:
        self.folder = folder
        self.token_file = folder / "token"
        address = folder / "token.server"
        address.unlink(missing_ok=True)
        (folder / "empty.toml").touch()
        arguments = ["--data", str(folder / "data"), "--listen", listen]
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "holdfast", "serve", *arguments,
                "--token-file", str(self.token_file), *options,
            ],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HOLDFAST_CONFIG": str(folder / "empty.toml")},
        )  # fmt: skip
        self.welcome: list[str] = []
        for line in self.process.stderr:
            self.welcome.append(line)
            if line.startswith("then"):
                break
        else:
            self.kill()
            raise AssertionError("".join(self.welcome))
        self.url = address.read_text().strip()
        self.token = self.token_file.read_text().strip()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        told = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        told.update({name.replace("_", "-"): value for name, value in headers.items()})
        content = None if body is None else json.dumps(body).encode()
        wire = HTTPConnection(self.url.removeprefix("http://"), timeout=PATIENCE_S)
        try:
            wire.request(method, f"/api/v1{path}", content, told)
            answer = wire.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            wire.close()

    def exchange(self, number: int, **reports: Any) -> Any:
        message = {
            "worker": "by-hand", "incarnation": 7, "number": number, "seen": number - 1,
            "capacity": {"slots": 4, "cpus_milli": 4_000, "memory_bytes": 0, "gpus": 0},
            "started": [], "done": [], "failed": [], "released": [], "held": [],
            "occupied": 0, "draining": False, **reports,
        }  # fmt: skip
        status, reply = self.ask("POST", "/exchange", message)
        assert status == 200, reply
        return reply

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        _, told = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, told


@contextmanager
def serving(folder: Path, *options: str, **rest: Any) -> Iterator[Server]:
    server = Server(folder, *options, **rest)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()
        server.process.stderr.close()


def leased(reply: Any) -> list[dict[str, Any]]:
    return [
        {"job_id": run["job_id"], "index": item["index"], "lease_id": item["lease_id"]}
        for run in reply["runs"]
        for item in run["items"]
    ]


@pytest.mark.slow
def test_a_job_is_worked_off_by_hand_across_two_deaths_of_the_server(tmp_path):
    body = {"command": {"argv": ["echo", "hello"]}, "count": 4, "name": "by-hand"}
    with serving(tmp_path) as server:
        assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
        status, job = server.ask("POST", "/jobs", body, Idempotency_Key="one")
        assert (status, job["id"], job["state"]) == (201, "1", "PENDING")
        held = leased(server.exchange(1))
        assert sorted(item["index"] for item in held) == [0, 1, 2, 3]
        server.kill()
    with serving(tmp_path) as server:
        # The asker never heard the answer and asks again; so does the worker.
        assert server.ask("POST", "/jobs", body, Idempotency_Key="one")[0] == 201
        other = {**body, "count": 5}
        status, problem = server.ask("POST", "/jobs", other, Idempotency_Key="one")
        assert (status, problem["code"]) == (422, "key_reused")
        assert [job["id"] for job in server.ask("GET", "/jobs")[1]["jobs"]] == ["1"]
        leases = [item["lease_id"] for item in held]
        started = [{**item, "ran_ms": 5} for item in held]
        done = [{**item, "ran_ms": 9, "result": "aGk="} for item in held[:2]]
        reply = server.exchange(2, started=started, done=done, held=leases)
        assert reply["verdicts"] == []
        server.kill()
    with serving(tmp_path) as server:
        # The answer to the report was lost with the server: told again, it is a repeat.
        done = [{**item, "ran_ms": 9, "result": "aGk="} for item in held]
        reply = server.exchange(3, started=started, done=done, held=leases)
        assert {verdict["verdict"] for verdict in reply["verdicts"]} <= {"COMMITTED"}
        status, job = server.ask("GET", "/jobs/1?wait=30s")
        assert (job["state"], job["counts"]["SUCCEEDED"]) == ("SUCCEEDED", 4)
        outcomes = server.ask("GET", "/jobs/1/outcomes?indices=0-3")[1]["outcomes"]
        assert [outcome["result"] for outcome in outcomes] == ["aGk="] * 4
        task = server.ask("GET", "/tasks/1/0")[1]
        assert [attempt["status"] for attempt in task["attempts"]] == ["DONE"]
        assert server.end() == (0, "holdfast: drained; everything is written\n")


def test_a_server_says_where_it_is_and_what_to_type_next(tmp_path):
    with serving(tmp_path) as server:
        told = "".join(server.welcome)
        assert server.url in told
        assert str(server.token_file) in told
        assert f"holdfast worker start --server {server.url}" in told
        assert server.ask("GET", "/version")[1]["epoch"] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_draining_lets_those_go_who_only_wait(tmp_path, number):
    with serving(tmp_path) as server:
        server.ask("POST", "/jobs", {"command": {"argv": ["true"]}, "delay": "1h"})
        host, _, port = server.url.removeprefix("http://").partition(":")
        ready = f"Host: {host}\r\nAuthorization: Bearer {server.token}\r\n\r\n"
        waits = []
        for path in ("/jobs/1?wait=5m", "/events?since=0", "/watch"):
            wait = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
            wait.sendall(f"GET /api/v1{path} HTTP/1.1\r\n{ready}".encode())
            waits.append(wait)
        # The streams have begun, so the request before them has been taken too.
        assert waits[1].recv(1) == b"H"
        assert waits[2].recv(1) == b"H"
        code, told = server.end(number)
        assert (code, told) == (0, "holdfast: drained; everything is written\n")
        for wait in waits:
            heard = b""
            while piece := wait.recv(65536):
                heard += piece
            wait.close()
            assert b"PENDING" in heard or b"SubmitJob" in heard or b"Opened" in heard


def test_a_folder_in_use_is_refused_with_the_name_of_its_user(tmp_path):
    with serving(tmp_path) as server:
        second = subprocess.run(
            [
                sys.executable, "-m", "holdfast", "serve", "--data", str(tmp_path / "data"),
                "--listen", "127.0.0.1:0", "--token-file", str(tmp_path / "other"),
            ],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert second.returncode == 75
        assert f"process {server.process.pid}" in second.stderr
        assert "Traceback" not in second.stderr


def test_a_port_in_use_is_told_with_a_way_out(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = subprocess.run(
            [
                sys.executable, "-m", "holdfast", "serve", "--data", str(tmp_path / "data"),
                "--listen", f"127.0.0.1:{port}", "--token-file", str(tmp_path / "token"),
            ],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    assert told.returncode == 1
    assert f"127.0.0.1:{port} is in use" in told.stderr
    assert "--listen" in told.stderr
    assert not (tmp_path / "data").exists()


def test_a_token_outlives_the_server_and_opens_no_other_log(tmp_path):
    with serving(tmp_path) as server:
        first = server.token
        assert "(new" in "".join(server.welcome)
        assert server.end()[0] == 0
    with serving(tmp_path) as server:
        assert server.token == first
        assert "(new" not in "".join(server.welcome)
        tokens = server.ask("GET", "/tokens")[1]["tokens"]
        assert [token["scopes"] for token in tokens] == [["admin"]]


def test_a_server_listens_on_a_socket_in_a_folder(tmp_path):
    with serving(tmp_path, listen=f"unix:{tmp_path}/hf.sock") as server:
        assert server.url == f"unix:{tmp_path}/hf.sock"
        with socket.socket(socket.AF_UNIX) as wire:
            wire.connect(str(tmp_path / "hf.sock"))
            wire.sendall(b"GET /livez HTTP/1.1\r\nHost: holdfast\r\nConnection: close\r\n\r\n")
            assert wire.recv(12) == b"HTTP/1.1 200"
        assert server.end()[0] == 0


def local_workers(server: Server) -> list[psutil.Process]:
    note = json.loads((server.folder / "data" / "local-workers.json").read_text())
    return [psutil.Process(each["pid"]) for each in note]


def test_local_workers_do_the_work_and_die_with_their_server(tmp_path):
    body = {"command": {"argv": ["true"]}, "count": 6}
    with serving(tmp_path, "--workers", "2") as server:
        server.ask("POST", "/jobs", body)
        assert server.ask("GET", "/jobs/1?wait=60s")[1]["state"] == "SUCCEEDED"
        server.ask("POST", "/jobs", {"command": {"argv": ["sleep", "600"]}, "name": "long"})
        workers = local_workers(server)
        assert len(workers) == 2
        server.kill()
        psutil.wait_procs(workers, timeout=PATIENCE_S)
        assert not any(worker.is_running() for worker in workers)
    with serving(tmp_path, "--workers", "2") as server:
        # What the dead ones held does not wait for its lease to end.
        assert server.ask("POST", "/jobs/2/cancel", {})[1] == {"stopped": 1}
        server.ask("POST", "/jobs", body)
        assert server.ask("GET", "/jobs/3?wait=60s")[1]["state"] == "SUCCEEDED"
        workers = local_workers(server)
        code, told = server.end()
        assert code == 0, told
        assert not any(worker.is_running() for worker in workers)


def test_a_local_worker_that_is_killed_loses_its_task_at_once(tmp_path):
    with serving(tmp_path, "--workers", "1", "--lease-term", "1h") as server:
        server.ask("POST", "/jobs", {"command": {"argv": ["sleep", "600"]}})
        with follow(server, "/events?since=0") as events:
            until(events, b"event: StartAttempts")
            for worker in local_workers(server):
                worker.kill()
            # No lease runs out within the hour: it was seen to die.
            until(events, b"event: LoseWorker")
            until(events, b"event: StartAttempts")
        attempts = server.ask("GET", "/tasks/1/0")[1]["attempts"]
        assert [attempt["reason"] for attempt in attempts] == ["worker_lost", None]
        server.ask("POST", "/jobs/1/cancel", {})
        assert server.end()[0] == 0


@pytest.mark.slow
def test_a_second_signal_does_not_wait(tmp_path):
    with serving(tmp_path, "--workers", "1") as server:
        server.ask("POST", "/jobs", {"command": {"argv": ["sleep", "600"]}})
        with follow(server, "/events?since=0") as events:
            until(events, b"event: StartAttempts")
            workers = local_workers(server)
            server.process.terminate()
            # The stream ends when the server begins to leave.
            until(events, b"\r\n0\r\n\r\n")
        code, _ = server.end()
        assert code == 128 + signal.SIGTERM
        psutil.wait_procs(workers, timeout=PATIENCE_S)
        assert not any(worker.is_running() for worker in workers)


@contextmanager
def follow(server: Server, path: str) -> Iterator[socket.socket]:
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as wire:
        wire.sendall(
            f"GET /api/v1{path} HTTP/1.1\r\nHost: {host}\r\n"
            f"Authorization: Bearer {server.token}\r\n\r\n".encode()
        )
        yield wire


def until(wire: socket.socket, wanted: bytes) -> None:
    """Read a stream up to what is wanted and no further."""
    heard = b""
    while not heard.endswith(wanted):
        piece = wire.recv(1)
        assert piece, heard
        heard += piece


def test_the_systems_manager_hears_when_it_is_ready_and_when_it_stops(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with serving(tmp_path) as server:
            assert manager.recv(100) == b"READY=1"
            server.process.send_signal(signal.SIGUSR1)
            server.process.send_signal(signal.SIGHUP)
            assert server.ask("GET", "/version")[0] == 200
            code, told = server.end()
            assert manager.recv(100) == b"STOPPING=1"
    assert code == 0
    assert "position 2, durable 2, 0 jobs" in told
    assert "most recent call first" in told


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_tls_holds_and_a_renewed_certificate_is_taken_up(tmp_path):
    def certificate(name: str) -> None:
        subprocess.run(
            [
                "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-days", "2", "-subj", f"/CN={name}",
                "-addext", "subjectAltName=IP:127.0.0.1",
                "-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem"),
            ],
            check=True, capture_output=True, timeout=PATIENCE_S,
        )  # fmt: skip

    def shown(server: Server) -> str:
        host, _, port = server.url.removeprefix("https://").partition(":")
        return ssl.get_server_certificate((host, int(port)), timeout=PATIENCE_S)

    certificate("first")
    files = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with serving(tmp_path, *files, "--workers", "1", listen="0.0.0.0:0") as server:
        trust = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        wire = HTTPSConnection(
            server.url.removeprefix("https://"), timeout=PATIENCE_S, context=trust
        )
        wire.request("GET", "/api/v1/jobs", headers={"Authorization": f"Bearer {server.token}"})
        assert wire.getresponse().status == 200
        wire.close()
        plain = HTTPConnection(server.url.removeprefix("https://"), timeout=PATIENCE_S)
        plain.request("GET", "/livez")
        with pytest.raises((ConnectionError, HTTPException)):
            # Nothing is told to those who speak plainly.
            plain.getresponse()
        plain.close()
        first = shown(server)
        certificate("second")
        server.process.send_signal(signal.SIGHUP)
        give_up_at = time.monotonic() + PATIENCE_S
        while shown(server) == first:
            assert server.process.poll() is None
            assert time.monotonic() < give_up_at, "it still shows the first certificate"
        second = (tmp_path / "cert.pem").read_text()
        assert shown(server) in second
        (tmp_path / "cert.pem").write_text("nonsense")
        server.process.send_signal(signal.SIGHUP)
        told = next(line for line in server.process.stderr if "settings" in line and "stay" in line)
        assert "no certificate" in told
        assert shown(server) in second
        assert server.end()[0] == 0

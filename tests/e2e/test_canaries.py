"""Secrets that everybody would recognise, sent everywhere a secret may go: they are found nowhere.

Not in the log, in snapshots or beside them, not in what a server or a worker says, not in metrics,
views, the exported audit trail or the bodies of refusals.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import IO, Any

import msgspec

from holdfast.core.owed import EFFECT, Entry
from holdfast.testing.handmade import Hand
from holdfast.testing.loopback import address_of
from holdfast.testing.patience import until
from holdfast.wire.bodies import Command, Submit
from holdfast.wire.http import Http, Server
from holdfast.wire.ports import held_port

PATIENCE_S = 60
ENV, FILE, HEADER, WRONG = (f"canary-{name}-5d41402abc" for name in ("env", "file", "to", "bad"))
CANARIES = {ENV, FILE, HEADER, WRONG}
LEAKS = 'echo "$GIVEN $FILED"; echo "$GIVEN and $FILED" >&2; exit 3'
SINK = """
[sinks.shop]
kind = "http"
url = "http://127.0.0.1:9/"
private = true
headers = {{ Authorization = "Bearer env:SHOP_TOKEN" }}
tries = 2
first_wait = "10ms"
"""


class House:
    """A server and a worker, each with what it said in a file."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self.home = home
        self.data = home / "data"
        self.token_file = home / "token"
        port = stack.enter_context(closing(held_port()))
        config = home / "config.toml"
        config.write_text(SINK.format())
        secrets = home / "secrets"
        secrets.mkdir()
        (secrets / "FILED").write_text(FILE + "\n")
        self._stack = stack
        listen = address_of(port)
        self.url = f"http://{listen}"
        serve = ("serve", "--data", str(self.data), "--listen", listen)
        self._start("server", *serve, "--token-file", str(self.token_file), SHOP_TOKEN=HEADER,
                    HOLDFAST_CONFIG=str(config))  # fmt: skip
        until(lambda: "serving" in self.said("server"))
        self._secrets = secrets

    def start_worker(self) -> None:
        start = ("worker", "start", "--server", self.url, "--token-file", str(self.token_file))
        self._start("worker", *start, "--secrets", str(self._secrets), "--cpus", "2",
                    HOLDFAST_SECRET_GIVEN=ENV)  # fmt: skip

    def _start(self, name: str, *arguments: str, **environment: str) -> None:
        said: IO[bytes] = self._stack.enter_context((self.home / f"{name}.log").open("wb"))
        known = {key: val for key, val in os.environ.items() if not key.startswith("HOLDFAST_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments],
            env={**known, **environment, "HOLDFAST_LOG_LEVEL": "debug"},
            stdout=said,
            stderr=said,
        )
        self._stack.callback(process.wait, PATIENCE_S)
        self._stack.callback(process.terminate)

    def said(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text(errors="replace")

    def ask(self, method: str, path: str, body: Any = None, *, token: str = "") -> tuple[int, str]:
        """Asked as by hand: status, and the answer as it came."""
        known = token or self.token_file.read_text().strip()
        headers = {"authorization": f"Bearer {known}", "content-type": "application/json"}
        with closing(HTTPConnection(self.url.removeprefix("http://"), timeout=PATIENCE_S)) as line:
            content = None if body is None else json.dumps(body)
            line.request(method, path, content, headers)
            answer = line.getresponse()
            return answer.status, answer.read().decode("utf-8", "replace")


@contextmanager
def settled(home: Path) -> Iterator[House]:
    with ExitStack() as stack:
        yield House(home, stack)


def owe_to_the_shop(house: House) -> None:
    """A commit owes an effect to a sink with a secret in its headers, and nobody is there."""
    body = Submit(command=Command(argv=["true"]))
    with closing(Http(Server(url=house.url, token=house.token_file.read_text().strip()))) as http:
        http.post("/api/v1/jobs", body, dict)
        hand = Hand(http, "by-hand")
        owed = Entry(EFFECT, "shop", "", msgspec.msgpack.encode({"order": 1}))
        hand.succeed(*hand.take(1), owed=lambda index: (owed,))
    until(lambda: '"PARKED"' in house.ask("GET", "/api/v1/effects")[1])


def hostile_answers(house: House) -> list[str]:
    """What strangers are told who send secrets where none belong."""
    told: list[str] = []
    asks: list[tuple[str, Any, str]] = [
        ("/api/v1/jobs", {"command": {"argv": [WRONG]}, "nonsense": WRONG}, ""),
        ("/api/v1/jobs", {"kind": "function", "target": "m:f", "items": [WRONG]}, ""),
        ("/api/v1/jobs/1/cancel", {"reason": [WRONG]}, ""),
        ("/api/v1/jobs/1/cancel", WRONG, ""),
        ("/api/v1/jobs", {"command": {"argv": ["true"]}}, f"hf_{WRONG}_{WRONG}"),
        ("/api/v1/jobs", {"command": {"argv": ["true"]}}, WRONG),
    ]
    for path, body, token in asks:
        status, text = house.ask("POST", path, body, token=token)
        assert 400 <= status < 500, text
        told.append(text)
    return told


def texts_of(house: House, job: str) -> dict[str, str]:
    """Everything that anybody can read."""
    paths = (
        f"/jobs/{job}", f"/jobs/{job}/tasks", f"/tasks/{job}/0", f"/tasks/{job}/0/history",
        f"/tasks/{job}/0/explain", f"/logs/{job}/0/1/stdout", f"/logs/{job}/0/1/stderr",
        "/transactions", "/effects", "/workers", "/quarantine", "/audit", "/metrics",
    )  # fmt: skip
    texts: dict[str, str] = {}
    for path in paths:
        status, texts[path] = house.ask("GET", f"/api/v1{path}")
        assert status == 200, (path, texts[path])
    return texts


def files_in(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_bytes().decode("latin-1")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_no_secret_is_found_anywhere(tmp_path: Path) -> None:
    with settled(tmp_path) as house:
        owe_to_the_shop(house)
        house.start_worker()
        command = {
            "argv": ["sh", "-c", LEAKS],
            "env": {"GIVEN": "secret:GIVEN", "FILED": "secret:FILED"},
        }
        job = json.loads(house.ask("POST", "/api/v1/jobs", {"command": command})[1])["id"]
        until(lambda: '"state":"FAILED"' in house.ask("GET", f"/api/v1/jobs/{job}")[1])
        texts = texts_of(house, job)
        assert "[secret]" in texts[f"/tasks/{job}/0"], "the task did say it, and it was covered"
        answers = hostile_answers(house)
    exported = subprocess.run(
        [sys.executable, "-m", "holdfast", "audit", "export", "--data", str(house.data)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=True,
    ).stdout  # fmt: skip
    assert job in exported
    texts |= {"answers": "\n".join(answers), "audit export": exported}
    texts |= {name: house.said(name) for name in ("server", "worker")}
    texts |= files_in(house.data)
    found = {
        (where, canary)
        for where, text in texts.items()
        for canary in CANARIES
        if canary in text
    }
    assert found == set()
    assert any(where.startswith("wal") for where in texts)

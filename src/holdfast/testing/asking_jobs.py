"""Someone who asks a server for one job after another, and remembers which it was promised."""

import threading
from typing import Final

from holdfast.testing.loopback import ServerProcess
from holdfast.wire.answers import Rejected
from holdfast.wire.bodies import Submit
from holdfast.wire.errors import Unreachable
from holdfast.wire.http import Http, Server

JOBS: Final = "/api/v1/jobs"
STOP_S: Final = 60.0


class Asker:
    """Asks until it is told to stop or the server is gone, and rests so long after each answer.
    `promised` are jobs by their keys."""

    def __init__(self, server: ServerProcess, name: str, *, rest_s: float = 0.0) -> None:
        self._rest_s = rest_s
        self.promised: dict[str, str] = {}
        self._http = Http(Server(url=server.url, token=server.token), patience_s=0.0)
        self._name = name
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="asker", daemon=True)

    def __enter__(self) -> "Asker":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join(STOP_S)
        self._http.close()

    def _ask(self) -> None:
        number = 0
        while not self._stopping.wait(self._rest_s):
            key = f"{self._name} {number}"
            body = Submit(kind="array", target="nowhere:played", count=1, key=key)
            try:
                self.promised[key] = self._http.post(JOBS, body, dict, key=key)["id"]
            except (Unreachable, Rejected):
                # Nothing was promised: what became of it is known by asking again.
                return
            number += 1


def broken_promises(server: ServerProcess, promised: dict[str, str]) -> list[str]:
    """The jobs that were promised and that the server does not know any more."""
    http = Http(Server(url=server.url, token=server.token))
    missing = []
    try:
        for key, job_id in promised.items():
            try:
                found = http.get(f"{JOBS}/{job_id}", dict)
            except Rejected:
                missing.append(f"{key}: {job_id} is gone")
                continue
            if found["key"] != key:
                missing.append(f"{key}: {job_id} is {found['key']}")
    finally:
        http.close()
    return missing

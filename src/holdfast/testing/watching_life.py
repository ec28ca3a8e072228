"""Someone who asks a server all the time whether it lives, and measures how long it takes."""

import threading
import time
from typing import Final

from holdfast.testing.loopback import ServerProcess
from holdfast.wire.http import Http, Server

PAUSE_S: Final = 0.02
STOP_S: Final = 60.0


class Pulse:
    """The answers take what the server's loop takes: no disk has a part in them."""

    def __init__(self, server: ServerProcess) -> None:
        self.took_s: list[float] = []
        self._http = Http(Server(url=server.url, token=server.token))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._feel, name="pulse", daemon=True)

    def __enter__(self) -> "Pulse":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join(STOP_S)
        self._http.close()

    def slowest_but_one_of_a_hundred_s(self) -> float:
        ranked = sorted(self.took_s)
        return ranked[len(ranked) * 99 // 100] if ranked else 0.0

    def _feel(self) -> None:
        while not self._stopping.wait(PAUSE_S):
            begun = time.monotonic()
            self._http.get("/livez", dict)
            self.took_s.append(time.monotonic() - begun)

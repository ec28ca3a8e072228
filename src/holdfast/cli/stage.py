"""Processes on a stage: a server and workers of a demo, each a real `holdfast` command.

They end with the demo, whatever ends it: the server by request, workers by the warning that their
server is gone, and all of them by force where that takes too long.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Final

from holdfast.cli.errors import REFUSED, Trouble
from holdfast.cli.unwinding import uninterrupted

SERVING: Final = "serving"
CONNECTED: Final = "connected"
STOP_S: Final = 10.0
TERM: Final = "2s"
"""Short, so that a demo need not wait long for a lease to run out."""


FREE: Final = (
    "import sys; from holdfast.cli.unwinding import heed; heed(); "
    "from holdfast.cli.main import main; sys.exit(main())"
)


class Player:
    """One process. What it says is read all the time, and kept for the case of trouble."""

    def __init__(self, name: str, arguments: list[str], cue: str) -> None:
        self.name = name
        self._cue = cue
        self._said: list[str] = []
        self._ready = threading.Event()
        self._process = subprocess.Popen(
            # What is held back here is not held back there.
            [sys.executable, "-c", FREE, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            # A terminal's Ctrl-C reaches the demo alone, which then ends its players in order.
            start_new_session=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def wait_until_ready(self) -> str:
        """The line that was waited for."""
        self._ready.wait()
        for line in self._said:
            if self._cue in line:
                return line
        raise Trouble(f"{self.name} did not start: {' '.join(self._said)}", REFUSED)

    def kill(self) -> None:
        """As a power cut would: the process, and whatever it had started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def leave(self) -> None:
        if self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def _listen(self) -> None:
        stream: IO[str] | None = self._process.stderr
        if stream is not None:
            with stream:
                for line in stream:
                    self._said.append(line.strip())
                    if self._cue in line:
                        self._ready.set()
        self._ready.set()


class Stage:
    """A server on a folder, and the workers it is given."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "state"
        self.token_file = folder / "token"
        self.url = ""
        self.workers: dict[str, Player] = {}
        self._server: Player | None = None

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self.workers.values():
            worker.leave()
        if self._server is not None:
            self._server.leave()

    def serve(self) -> None:
        arguments = [
            "serve", "--data", str(self.data), "--listen", "127.0.0.1:0",
            "--token-file", str(self.token_file), "--lease-term", TERM,
        ]  # fmt: skip
        with uninterrupted():
            self._server = Player("the server", arguments, SERVING)
        self.url = self._server.wait_until_ready().split()[-1]

    def hire(self, *names: str) -> None:
        """Start workers, and wait until the server has heard of each."""
        for name in names:
            arguments = [
                "worker", "start", "--server", self.url, "--name", name, "--slots", "2",
                "--token-file", str(self.token_file),
            ]  # fmt: skip
            with uninterrupted():
                self.workers[name] = Player(f"worker {name}", arguments, CONNECTED)
        for name in names:
            self.workers[name].wait_until_ready()

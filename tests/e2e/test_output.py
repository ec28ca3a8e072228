"""What tasks print, from a real worker to a real server: kept, followed, bounded, survived."""

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from holdfast.testing.loopback import address_of
from holdfast.wire.bodies import Submit
from holdfast.wire.http import Http, Rejected, Server
from holdfast.wire.output import Output
from holdfast.wire.ports import held_port
from holdfast.worker.payloads import encode_call

pytestmark = pytest.mark.slow

PATIENCE_S = 60
TASKS = """
import subprocess, sys, time
from pathlib import Path

def speak(n):
    print("hello", n)
    print("oh", n, file=sys.stderr, end="")
    subprocess.run(["echo", f"child {n}"])

def quiet(n):
    return n

def fails(n):
    print("about to fail")
    raise ValueError(n)

def dies(n):
    print("last words", end="", flush=True)
    import os
    os._exit(3)

def waits(path):
    print("begun")
    while not Path(path).exists():
        time.sleep(0.01)
    print("went on")
"""


class House:
    """A server and its workers, each a process; `http` asks as the administrator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tasks.py").write_text(TASKS)
        (folder / "empty.toml").touch()
        (folder / "run").mkdir(mode=0o700)
        self.environment = {
            **os.environ,
            "HOME": str(folder),
            "HOLDFAST_CONFIG": str(folder / "empty.toml"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        # The server is killed and comes back, and must find its port free then.
        self._port = held_port()
        self.listen = address_of(self._port)
        self.server = self.serve()
        url = (folder / "token.server").read_text().strip()
        token = (folder / "token").read_text().strip()
        self.http = Http(Server(url=url, token=token), patience_s=PATIENCE_S)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        number = len(self.processes)
        with (self.folder / f"printed-{number}").open("wb") as printed:
            process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", *arguments],
                stdin=subprocess.DEVNULL, stdout=printed, stderr=printed,
                cwd=self.folder, env=self.environment,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def serve(self) -> subprocess.Popen[bytes]:
        address = self.folder / "token.server"
        address.unlink(missing_ok=True)
        server = self.start(
            "serve", "--data", "data", "--listen", self.listen, "--token-file", "token",
            "--lease-term", "2s",
        )  # fmt: skip
        self.until(address.exists)
        return server

    def hire(self, name: str = "w") -> subprocess.Popen[bytes]:
        return self.start(
            "worker", "start", "--server", f"http://{self.listen}", "--token-file", "token",
            "--name", name, "--slots", "2", "--cpus", "2",
        )  # fmt: skip

    def typed(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A command for this server, under way."""
        environment = {
            **self.environment,
            "HOLDFAST_SERVER": f"http://{self.listen}",
            "HOLDFAST_TOKEN_FILE": str(self.folder / "token"),
        }
        command = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder, env=environment,
        )  # fmt: skip
        self.processes.append(command)
        return command

    def shell(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        """The same, to its end."""
        command = self.typed(*arguments)
        out, err = command.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(arguments, command.returncode, out, err)

    def until(self, is_so: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < give_up_at, self.printed()
            time.sleep(0.01)

    def printed(self) -> str:
        return "\n".join(path.read_text() for path in self.folder.glob("printed-*"))

    def submit(self, **body: Any) -> str:
        told = self.http.post("/api/v1/jobs", msgspec.convert(body, Submit), dict)
        return str(told["id"])

    def command(self, *argv: str) -> str:
        return self.submit(command={"argv": list(argv)}, count=1)

    def call(self, name: str, *values: Any) -> str:
        items = [base64.b64encode(encode_call((value,))).decode() for value in values]
        return self.submit(kind="function", target=f"tasks:{name}", items=items)

    def read(self, job: str, offset: int = 0, index: int = 0, **rest: Any) -> Output:
        attempt, stream = rest.get("attempt", 1), rest.get("stream", "stdout")
        path = f"/api/v1/logs/{job}/{index}/{attempt}/{stream}"
        return self.http.get(path, Output, offset=offset, wait=rest.get("wait", "30s"))

    def whole(self, job: str, **rest: Any) -> tuple[bytes, int]:
        """Everything up to the end, and how much was dropped."""
        content, dropped, offset = b"", 0, 0
        give_up_at = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_at:
            piece = self.read(job, offset, **rest)
            content, dropped, offset = content + piece.content, dropped + piece.dropped, piece.next
            if piece.ended:
                return content, dropped
        raise TimeoutError(f"it goes on after {offset} bytes: {content[-200:]!r}")

    def finished(self, job: str) -> str:
        view: dict[str, Any] = {}
        give_up_at = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_at:
            view = self.http.get(f"/api/v1/jobs/{job}", dict, wait="10s")
            if view["state"] not in ("PENDING", "RUNNING"):
                return str(view["state"])
        raise TimeoutError(f"job {job} does not end: {view}\n{self.printed()}")

    def close(self) -> None:
        self.http.close()
        self._port.close()
        for process in reversed(self.processes):
            if process.poll() is None:
                family = psutil.Process(process.pid).children(recursive=True)
                process.kill()
                process.wait()
                psutil.wait_procs(family, PATIENCE_S)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_commands_and_functions_print_and_each_attempt_has_its_own(house: House) -> None:
    house.hire()
    command = house.command("sh", "-c", "echo out; echo err >&2; exit 3")
    assert house.whole(command) == (b"out\n", 0)
    assert house.whole(command, stream="stderr") == (b"err\n", 0)
    silent = house.command("true")
    assert house.finished(silent) == "SUCCEEDED"
    assert house.whole(silent) == (b"", 0)
    job = house.call("speak", 0, 1, 2)
    assert house.finished(job) == "SUCCEEDED"
    for index in range(3):
        told = house.whole(job, index=index)[0].decode()
        assert told.splitlines() == [f"hello {index}", f"child {index}"]
        assert house.whole(job, index=index, stream="stderr") == (b"oh %d" % index, 0)
    listed = house.http.get(f"/api/v1/jobs/{job}/logs", dict)["logs"]
    assert [(each["index"], each["ended"]) for each in listed] == [
        (index, True) for index in (0, 0, 1, 1, 2, 2)
    ]
    nothing = house.call("quiet", *range(20))
    assert house.finished(nothing) == "SUCCEEDED"
    assert house.whole(nothing, index=7) == (b"", 0)
    assert house.http.get(f"/api/v1/jobs/{nothing}/logs", dict)["logs"] == []


def test_what_fails_or_dies_has_printed_what_it_printed(house: House) -> None:
    house.hire()
    assert house.whole(house.call("fails", 1)) == (b"about to fail\n", 0)
    assert house.whole(house.call("dies", 1)) == (b"last words", 0)


def test_output_is_followed_while_the_task_runs(house: House, tmp_path: Path) -> None:
    house.hire()
    go = tmp_path / "go"
    function = house.call("waits", str(go))
    script = f"echo begun; while [ ! -e {go} ]; do sleep 0.02; done; echo went on"
    command = house.command("sh", "-c", script)
    for job in (function, command):
        house.until(lambda job=job: attempts(house, job) > 0)
        piece = house.read(job)
        assert (piece.content, piece.ended) == (b"begun\n", False)
    go.touch()
    for job in (function, command):
        assert house.whole(job) == (b"begun\nwent on\n", 0)


@pytest.mark.slow
def test_output_outlives_the_worker_that_was_killed_and_the_server_too(
    house: House, tmp_path: Path
) -> None:
    worker = house.hire()
    job = house.call("waits", str(tmp_path / "go"))
    house.until(lambda: attempts(house, job) > 0)
    assert house.read(job).content == b"begun\n"
    worker.kill()
    worker.wait()
    house.server.kill()
    house.server.wait()
    house.server = house.serve()
    assert house.read(job).content == b"begun\n"
    house.hire("another")
    (tmp_path / "go").touch()
    assert house.finished(job) == "SUCCEEDED"
    # Nobody said that the first attempt's output was at its end; it is, all the same.
    assert house.whole(job) == (b"begun\n", 0)
    assert house.whole(job, attempt=attempts(house, job)) == (b"begun\nwent on\n", 0)


@pytest.mark.slow
def test_a_chatty_task_is_bounded_and_says_so(house: House) -> None:
    house.hire()
    lines = 1_500_000
    job = house.command(sys.executable, "-c", f"for n in range({lines}): print(f'{{n:07}}')")
    assert house.finished(job) == "SUCCEEDED"
    # The first reading follows the stream to its end, and may meet what is dropped behind it.
    house.whole(job)
    content, dropped = house.whole(job)
    assert len(content) + dropped == 8 * lines
    assert len(content) <= 4 * 1024 * 1024
    assert content.startswith(b"0000000\n0000001\n")
    assert content.endswith(b"%07d\n" % (lines - 1))
    kept = sum(file.stat().st_size for file in (house.folder / "data" / "output").rglob("*-std*"))
    assert kept <= 4 * 1024 * 1024


def test_a_worker_that_leaves_has_sent_everything(house: House, tmp_path: Path) -> None:
    worker = house.hire()
    job = house.command("sh", "-c", f"trap '' TERM; touch {tmp_path}/up; sleep 0.5; echo bye")
    house.until((tmp_path / "up").exists)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(PATIENCE_S) == 0
    told = msgspec.structs.asdict(house.read(job, wait="0s"))
    assert (told["content"], told["ended"]) == (b"bye\n", True)


@pytest.mark.slow
def test_the_command_line_follows_across_attempts(house: House, tmp_path: Path) -> None:
    house.hire()
    go = tmp_path / "go"
    script = (
        f"echo try $HOLDFAST_ATTEMPT; echo oh >&2; while [ ! -e {go} ]; do sleep 0.02; done; "
        "[ $HOLDFAST_ATTEMPT = 2 ]"
    )
    job = house.submit(command={"argv": ["sh", "-c", script]}, count=1, retries=1)
    following = house.typed("task", "logs", f"{job}/0", "-f")
    # Whoever begins to follow when the first attempt is over begins with the second.
    assert following.stdout.readline() == b"try 1\n"
    go.touch()
    out, err = following.communicate(timeout=PATIENCE_S)
    assert (following.returncode, out, err) == (0, b"try 2\n", b"oh\noh\n")
    assert house.shell("job", "logs", job, "--attempt", "1").stdout == b"try 1\n"
    many = house.submit(command={"argv": ["sh", "-c", "echo $HOLDFAST_TASK_INDEX"]}, count=5)
    shown = house.shell("job", "logs", many, "-f")
    assert sorted(shown.stdout.splitlines()) == [
        f"{many}/{index} | {index}".encode() for index in range(5)
    ]


def test_run_shows_what_its_command_prints_and_ends_as_it_ended(house: House) -> None:
    house.hire()
    shown = house.shell("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (shown.returncode, shown.stdout) == (7, b"out\n")
    assert b"err\n" in shown.stderr
    shown = house.shell("run", "--", "true")
    assert (shown.returncode, shown.stdout) == (0, b"")


def attempts(house: House, job: str) -> int:
    try:
        return len(house.http.get(f"/api/v1/tasks/{job}/0", dict)["attempts"])
    except Rejected:
        return 0

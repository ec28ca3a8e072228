"""Code travels with a job: a real server, real workers elsewhere, and folders they never saw."""

import importlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import Refused, TaskFailed
from holdfast.testing.archives import archive, file
from holdfast.testing.loopback import ServerProcess
from holdfast.wire.bodies import Command, Submit
from holdfast.wire.contents import new_digest
from holdfast.wire.http import Http, Rejected, Server

PATIENCE_S = 60
API = "/api/v1"


class Worker:
    """A `holdfast worker start` process with a home of its own."""

    def __init__(self, server: ServerProcess, home: Path, name: str, *options: str) -> None:
        self.cache = home / "bundles"
        self._printed = home / f"{name}.txt"
        (home / "run").mkdir(parents=True, exist_ok=True, mode=0o700)
        environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home / "run"),
            "XDG_STATE_HOME": str(home / "state"),
        }
        command = [
            sys.executable, "-m", "holdfast", "worker", "start", "--server", server.url,
            "--token-file", str(server.token_file), "--name", name, "--cpus", "1",
            "--bundles", str(self.cache), *options,
        ]  # fmt: skip
        with self._printed.open("wb") as printed:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed,
                cwd=home, env=environment,
            )  # fmt: skip

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)

    def bundles(self) -> set[str]:
        return {path.name for path in self.cache.glob("*") if path.suffix != ".lock"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "served") as server:
        yield server


@pytest.fixture
def hire(server: ServerProcess, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def hire(name: str = "w", *options: str) -> Worker:
        workers.append(Worker(server, tmp_path / "elsewhere", name, *options))
        return workers[-1]

    yield hire
    for worker in workers:
        worker.end()


@pytest.fixture
def hf(server: ServerProcess) -> Iterator[holdfast.Holdfast]:
    with holdfast.connect(server.url, token_file=server.token_file) as connected:
        yield connected


@pytest.fixture
def http(server: ServerProcess) -> Iterator[Http]:
    http = Http(Server(url=server.url, token=server.token))
    yield http
    http.close()


def written(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def run_command(http: Http, bundle: str, *argv: str, cwd: str = "") -> str:
    """Submit, wait, and say how the job ended."""
    body = Submit(command=Command(argv=list(argv), cwd=cwd), bundle=bundle)
    job = http.post(f"{API}/jobs", body, dict, key=os.urandom(8).hex())
    give_up_at = time.monotonic() + PATIENCE_S
    while time.monotonic() < give_up_at:
        shown = http.get(f"{API}/jobs/{job['id']}", dict, wait="10s")
        if shown["state"] not in ("PENDING", "RUNNING"):
            return str(shown["state"])
    raise TimeoutError("the job did not end in time")


@pytest.mark.slow
def test_functions_come_from_the_bundle_and_each_version_stays_itself(
    hf: holdfast.Holdfast,
    hire: Callable[..., Worker],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    worker = hire("w", "--slots", "1")
    code = written(
        tmp_path / "code",
        traveller=(
            "import os, baggage\n"
            "def tell(n):\n"
            "    return [baggage.VERSION, n, __file__, os.environ['HOLDFAST_BUNDLE']]\n"
        ),
        baggage="VERSION = 1\n",
    )
    monkeypatch.syspath_prepend(code)
    traveller = importlib.import_module("traveller")
    first = hf.bundle(code)
    written(code, baggage="VERSION = 2\n")
    second = hf.bundle(code)
    assert first.digest != second.digest
    calls = []
    for number in range(4):
        calls.append((1, number, first, hf.submit(traveller.tell, number, bundle=first)))
        calls.append((2, number, second, hf.submit(traveller.tell, number, bundle=second)))
        assert hf.submit(abs, -number).result(PATIENCE_S) == number
    for version, number, bundle, call in calls:
        place = worker.cache / bundle.digest
        told = call.result(PATIENCE_S)
        assert told == [version, number, str(place / "traveller.py"), str(place)]
    assert worker.bundles() == {first.digest, second.digest}
    job = hf.map(traveller.tell, range(50), bundle=code)
    assert [told[:2] for told in job.results()] == [[2, n] for n in range(50)]
    array = hf.array(traveller.tell, 5, bundle=code)
    assert [told[1] for told in array.results()] == list(range(5))
    for module in ("traveller", "baggage"):
        sys.modules.pop(module, None)


@pytest.mark.slow
def test_a_bundle_may_have_modules_named_like_ours(
    hf: holdfast.Holdfast, hire: Callable[..., Worker], tmp_path: Path, monkeypatch
):
    hire()
    code = written(
        tmp_path / "code",
        msgspec="raise ImportError('not this one')\n",
        holdfast="raise ImportError('nor this')\n",
        homonym="def twice(n):\n    return 2 * n\n",
    )
    monkeypatch.syspath_prepend(tmp_path / "code")
    homonym = importlib.import_module("homonym")
    assert hf.submit(homonym.twice, 4, bundle=code).result(PATIENCE_S) == 8
    sys.modules.pop("homonym")


def test_a_function_that_is_not_in_its_bundle_fails_and_says_so(
    hf: holdfast.Holdfast, hire: Callable[..., Worker], tmp_path: Path, monkeypatch
):
    hire()
    written(tmp_path / "here", stayed="def at_home():\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path / "here")
    stayed = importlib.import_module("stayed")
    empty = written(tmp_path / "code", other="")
    with pytest.raises(TaskFailed, match="stayed"):
        hf.submit(stayed.at_home, bundle=empty).result(PATIENCE_S)
    sys.modules.pop("stayed")


@pytest.mark.slow
def test_the_script_that_was_started_can_be_its_own_bundle(
    server: ServerProcess, hire: Callable[..., Worker], tmp_path: Path
):
    hire()
    script = (
        "import holdfast, helper\n"
        "def work(n):\n"
        "    return helper.double(n)\n"
        "if __name__ == '__main__':\n"
        f"    with holdfast.connect({server.url!r}, token_file={str(server.token_file)!r}) as hf:\n"
        f"        print(hf.submit(work, 21, bundle='.').result({PATIENCE_S}))\n"
    )
    code = written(tmp_path / "code", main=script, helper="def double(n):\n    return 2 * n\n")
    done = subprocess.run(
        [sys.executable, "main.py"],
        cwd=code, capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


@pytest.mark.slow
def test_commands_run_inside_the_bundle(
    hf: holdfast.Holdfast, http: Http, hire: Callable[..., Worker], tmp_path: Path
):
    worker = hire()
    look = (
        "import json, os, sys\n"
        "told = {'cwd': os.getcwd(), 'bundle': os.environ['HOLDFAST_BUNDLE']}\n"
        "own = os.environ['HOLDFAST_TASK_DIR']\n"
        "open(os.path.join(own, 'mine'), 'w').close()\n"
        "told['own'] = os.listdir(own)\n"
        "json.dump(told, open(sys.argv[1], 'w'))\n"
    )
    code = written(tmp_path / "code", look=look)
    written(code / "inner", neighbour="")
    (code / "run.sh").write_text('#!/bin/sh\ncat look.py > "$1"\n')
    (code / "run.sh").chmod(0o755)
    digest = hf.bundle(code).digest
    place = worker.cache / digest
    seen = tmp_path / "seen"
    assert run_command(http, digest, sys.executable, "look.py", str(seen)) == "SUCCEEDED"
    told = json.loads(seen.read_text())
    assert told == {"cwd": str(place), "bundle": str(place), "own": ["mine"]}
    assert run_command(http, digest, "./run.sh", str(tmp_path / "copy")) == "SUCCEEDED"
    assert (tmp_path / "copy").read_text() == look
    inner = (sys.executable, "../look.py", str(seen))
    assert run_command(http, digest, *inner, cwd="inner") == "SUCCEEDED"
    assert json.loads(seen.read_text())["cwd"] == str(place / "inner")
    assert run_command(http, digest, "true", cwd="nowhere") == "FAILED"
    assert not list(place.rglob("__pycache__"))


@pytest.mark.slow
def test_a_bad_bundle_fails_its_job_and_harms_nothing(
    hf: holdfast.Holdfast, http: Http, hire: Callable[..., Worker], tmp_path: Path
):
    worker = hire()
    for number, content in enumerate((b"garbage", archive(file("../escaped")))):
        digest = new_digest()
        digest.update(content)
        name = digest.hexdigest()
        source = tmp_path / f"bad-{number}"
        source.write_bytes(content)
        with source.open("rb") as opened:
            http.upload(f"{API}/bundles/{name}", opened, len(content))
        assert run_command(http, name, "true") == "FAILED"
        task = http.get(f"{API}/tasks/{number + 1}/0", dict)
        assert "is bad" in task["error"]
        assert (task["failures"]["used"], task["losses"]["used"]) == (1, 0)
    assert worker.bundles() == set()
    assert not (worker.cache.parent / "escaped").exists()


@pytest.mark.slow
@pytest.mark.slow
def test_two_workers_of_one_machine_share_what_is_unpacked(
    hf: holdfast.Holdfast, hire: Callable[..., Worker], tmp_path: Path, monkeypatch
):
    workers = [hire(name) for name in ("one", "two")]
    code = written(
        tmp_path / "code",
        sharing="import os, time\ndef who(n):\n    time.sleep(0.05)\n    return os.getppid()\n",
    )
    monkeypatch.syspath_prepend(code)
    sharing = importlib.import_module("sharing")
    bundle = hf.bundle(code)
    pids: set[int] = set()
    give_up_at = time.monotonic() + PATIENCE_S
    while len(pids) < 2:
        assert time.monotonic() < give_up_at, f"only {pids} took anything"
        pids |= set(hf.map(sharing.who, range(40), bundle=bundle).results())
    assert pids == {worker.process.pid for worker in workers}
    assert workers[0].bundles() == {bundle.digest}
    sys.modules.pop("sharing")


@pytest.mark.slow
def test_a_bundle_is_as_durable_as_the_job_that_needs_it(
    hf: holdfast.Holdfast,
    server: ServerProcess,
    hire: Callable[..., Worker],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    code = written(tmp_path / "code", lasting="def six():\n    return 6\n")
    monkeypatch.syspath_prepend(code)
    lasting = importlib.import_module("lasting")
    call = hf.submit(lasting.six, bundle=code)
    server.kill()
    server.start()
    hire()
    assert call.result(PATIENCE_S) == 6
    sys.modules.pop("lasting")


def test_an_unknown_bundle_is_refused_with_its_digest(http: Http):
    body = Submit(command=Command(argv=["true"]), bundle="0" * 64)
    with pytest.raises(Rejected, match="0" * 64) as no:
        http.post(f"{API}/jobs", body, dict, key="k")
    assert no.value.problem.status == 404


def test_a_large_upload_that_is_refused_hears_why(http: Http, tmp_path: Path):
    source = tmp_path / "large"
    source.write_bytes(bytes(66 * 1024 * 1024))
    with source.open("rb") as opened, pytest.raises(Rejected, match="at most") as no:
        http.upload(f"{API}/bundles/{'0' * 64}", opened, source.stat().st_size)
    assert no.value.problem.status == 413


@pytest.mark.slow
def test_a_server_killed_in_the_middle_of_an_upload_has_nothing_of_it(
    server: ServerProcess, http: Http
):
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as link:
        link.sendall(
            f"PUT {API}/bundles/{'0' * 64} HTTP/1.1\r\nhost: {host}\r\n"
            f"authorization: Bearer {server.token}\r\ncontent-length: 2000000\r\n\r\n".encode()
        )
        link.sendall(bytes(1_000_000))
        folder = server.data / "bundles"
        give_up_at = time.monotonic() + PATIENCE_S
        while not (folder.is_dir() and any(each.stat().st_size for each in folder.iterdir())):
            assert time.monotonic() < give_up_at, "nothing of it reached the disk"
        server.kill()
    [left] = os.listdir(folder)
    assert left.startswith(f".arriving-{'0' * 64}-")
    server.start()
    assert os.listdir(folder) == []
    with pytest.raises(Rejected):
        http.head(f"{API}/bundles/{'0' * 64}")


def test_a_folder_that_cannot_travel_is_refused_before_anything_is_sent(
    hf: holdfast.Holdfast, server: ServerProcess, tmp_path: Path
):
    code = written(tmp_path / "code", main="")
    os.symlink("/etc/passwd", code / "secrets")
    with pytest.raises(Refused, match="'secrets' is a link"):
        hf.submit(abs, -1, bundle=code)
    assert not (server.data / "bundles").exists()


def test_a_folder_that_is_opened_takes_no_bundle(tmp_path: Path):
    opened = holdfast.open(tmp_path / "state", workers=1)
    with opened, pytest.raises(Refused, match="workers of a server"):
        opened.submit(abs, -1, bundle=tmp_path)

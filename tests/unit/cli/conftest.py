"""Folders with a known story, written by the real log, and the command run in this process."""

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.cli.main import main
from holdfast.core.record import decode_record
from holdfast.core.spec import JobSpec, RetryPolicy
from holdfast.testing.world import World
from holdfast.wal import FileLog

# Log time of a world begins at 1,000 s; its wall clock then shows 2023-11-14T22:13:20Z.
WALL_OFFSET = 1_700_000_000_000 - 1_000_000

SPEC = JobSpec(
    name="squares",
    kind="function",
    target="shop:square",
    retries=2,
    retry=RetryPolicy(kind="fixed", delay_ms=500, jitter=0),
)


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]
Write = Callable[[World], Path]


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test looks different because of the terminal it was started from."""
    for name in list(os.environ):
        if name.startswith("HOLDFAST_") and name != "HOLDFAST_SEED":
            monkeypatch.delenv(name)
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test finds a server, a token or a setting of whoever runs it."""
    place = tmp_path_factory.mktemp("home")
    for name in ("CONFIG", "STATE", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(place / name.lower()))
    return place


@pytest.fixture
def nobody_there(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server that is not there, and cannot come while the test runs."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{door.getsockname()[1]}"
        monkeypatch.setenv("HOLDFAST_SERVER", url)
        monkeypatch.setattr("holdfast.cli.asking.PATIENCE_S", 0.0)
        yield url


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command, in this process: its exit code and both its streams."""

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return call


def written(world: World, path: Path) -> Path:
    """A world's records as a folder on disk, a frame each."""
    log = FileLog.open(path)
    for data in world.log:
        at = decode_record(data).at
        log.append([data], at=at, wall=at + WALL_OFFSET)
        log.sync()
    log.close()
    return path


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return lambda world: written(world, tmp_path / "state")


@pytest.fixture(scope="session")
def write_once(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """The same for folders that many tests look into, and none changes."""
    return lambda world: written(world, tmp_path_factory.mktemp("world") / "state")


@pytest.fixture
def spec() -> JobSpec:
    return SPEC


def told() -> World:
    """Job 1 of four tasks: one succeeds at the second try, one spends its budget, one runs, one
    waits. Then job 2, which nobody has begun."""
    world = World()
    world.submit("", items=(b"a", b"b", b"c", b"d"), spec=SPEC)
    (first,) = world.grant("1", 0)
    world.sleep(100)
    world.start("1", 0, first)
    world.fail("1", 0, first)
    world.sleep(600)
    (second,) = world.grant("1", 0)
    world.start("1", 0, second)
    world.sleep(250)
    world.commit("1", 0, second, result=b"\x01")
    for _ in range(3):
        (lease,) = world.grant("1", 1)
        world.start("1", 1, lease)
        world.sleep(10)
        world.fail("1", 1, lease)
        world.sleep(600)
    (held,) = world.grant("1", 2, term_ms=15_000)
    world.start("1", 2, held)
    world.submit("", 2, spec=JobSpec(name="cubes", kind="function", target="shop:cube"))
    return world


@pytest.fixture
def story() -> World:
    return told()


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written once, since a log waits for the disk at every frame."""
    return written(told(), tmp_path_factory.mktemp("story") / "state")


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """The story on disk, for this test alone."""
    return Path(shutil.copytree(original, tmp_path / "state"))

"""A server as people start it, the command line that finds it, and a worker played by hand."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast.cli.main import main
from holdfast.testing.handmade import Hand
from holdfast.testing.loopback import address_of
from holdfast.wire.http import Http, Server
from holdfast.wire.ports import held_port

PATIENCE_S = 60
KEPT = ("HOLDFAST_SEED",)


class Served:
    """`holdfast serve` on a free port. Its files are where those of a user would be."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.options = options
        self.data = home / "data"
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("HOLDFAST_") or name in KEPT
        }
        self.environment |= {
            f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "STATE", "CACHE")
        }
        self.environment["XDG_RUNTIME_DIR"] = str(home / "runtime")
        # It may be started again, and must find its port free then.
        self._port = held_port()
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "holdfast", "serve", "--data", str(self.data)),
                *("--listen", address_of(self._port), *self.options),
            ],
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        told = []
        for line in process.stderr:
            told.append(line)
            if line.startswith("then"):
                self.welcome = "".join(told)
                return process
        process.communicate(timeout=PATIENCE_S)
        raise AssertionError("".join(told))

    @property
    def token_file(self) -> Path:
        return self.home / "config" / "holdfast" / "token"

    @property
    def url(self) -> str:
        return self.token_file.with_name("token.server").read_text().strip()

    def restart(self, *, is_killed: bool = False) -> None:
        """The same server again, where it was."""
        if is_killed:
            self.process.kill()
            self.process.communicate(timeout=PATIENCE_S)
        else:
            self._end()
        self.process = self._start()

    def stop(self) -> None:
        self._end()
        self._port.close()

    def _end(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE_S)

    def http(self) -> Http:
        return Http(Server(url=self.url, token=self.token_file.read_text().strip()))


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Call = Callable[..., Outcome]


@pytest.fixture
def begin_server(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """A server that a test has for itself."""
    begun: list[Served] = []

    def begin(*options: str) -> Served:
        begun.append(Served(tmp_path / f"server-{len(begun)}", *options))
        return begun[-1]

    yield begin
    for each in begun:
        each.stop()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of a module."""
    found = Served(tmp_path_factory.mktemp("served"))
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture
def hand(served: Served, request: pytest.FixtureRequest) -> Iterator[Hand]:
    """A worker of this test alone."""
    http = served.http()
    try:
        yield Hand(http, request.node.name[:60])
    finally:
        http.close()


@pytest.fixture
def hand_of() -> Iterator[Callable[[Served], Hand]]:
    """A worker for a server that a test has for itself."""
    made: list[Http] = []

    def make(server: Served) -> Hand:
        made.append(server.http())
        return Hand(made[-1], "by-hand")

    yield make
    for http in made:
        http.close()


@pytest.fixture
def typing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Served], Call]:
    """The command as a user of a server that a test has for itself types it."""
    return lambda served: typing_at(served, monkeypatch, capsys)


@pytest.fixture
def call(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """The command as a user of this server types it, in this process."""
    return typing_at(served, monkeypatch, capsys)


@pytest.fixture
def call_alone(
    begin_server: Callable[..., Served],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Call:
    """The same, where no other test has asked for anything or worked."""
    return typing_at(begin_server(), monkeypatch, capsys)


def typing_at(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    for name in os.environ:
        if name.startswith("HOLDFAST_") and name not in KEPT:
            monkeypatch.delenv(name)
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in served.environment.items():
        if name.startswith("XDG_"):
            monkeypatch.setenv(name, value)

    def typed(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return typed

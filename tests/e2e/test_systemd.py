"""The example units: what they say is what the commands take, and a manager that goes by them."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click
import pytest

from holdfast.cli.main import holdfast

PATIENCE_S = 60
UNITS = Path(__file__).parents[2] / "docs" / "systemd"
PROGRAM = "/usr/local/bin/holdfast"


def settings_of(unit: str) -> dict[str, str]:
    """The lines of a unit; those that may be repeated are joined."""
    found: dict[str, str] = {}
    for line in (UNITS / unit).read_text(encoding="utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[name] = f"{found[name]} {value}" if name in found else value
    return found


def command_of(unit: str, state: Path) -> list[str]:
    text = settings_of(unit)["ExecStart"]
    for sign, place in (("%S", state), ("%C", state), ("%H", "here")):
        text = text.replace(sign, str(place))
    words = shlex.split(text.replace("${CREDENTIALS_DIRECTORY}", str(state)))
    assert words[0] == PROGRAM
    return words[1:]


@pytest.mark.parametrize("unit", sorted(path.name for path in UNITS.iterdir()))
def test_a_unit_names_options_that_there_are(unit: str, tmp_path: Path) -> None:
    words = command_of(unit, tmp_path)
    command: click.Command | None = holdfast
    context = click.Context(holdfast, info_name="holdfast")
    while isinstance(command, click.Group):
        command = command.get_command(context, words.pop(0))
    command.make_context(command.name, words)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
@pytest.mark.parametrize("unit", sorted(path.name for path in UNITS.iterdir()))
def test_systemd_finds_nothing_wrong_with_a_unit(unit: str, tmp_path: Path) -> None:
    # It looks for the program, too.
    text = (UNITS / unit).read_text(encoding="utf-8").replace(PROGRAM, sys.executable)
    (tmp_path / unit).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


class PlayedSystem:
    """What systemd does with a unit of `Type=notify`, as far as the server can tell."""

    def __init__(self, unit: str, folder: Path, watchdog_us: int) -> None:
        told = settings_of(unit)
        assert (told["Type"], told["NotifyAccess"]) == ("notify", "main")
        self.reload_words = shlex.split(told["ExecReload"])
        self.watchdog_s = watchdog_us / 1_000_000
        self._wire = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._wire.bind(str(folder / "notify"))
        (folder / "empty.toml").touch()
        (folder / "holdfast").mkdir()
        command = [sys.executable, "-m", "holdfast", *command_of(unit, folder)]
        environment = {
            **os.environ,
            "NOTIFY_SOCKET": str(folder / "notify"),
            "WATCHDOG_USEC": str(watchdog_us),
            "HOLDFAST_CONFIG": str(folder / "empty.toml"),
            "HOLDFAST_SERVER__LISTEN": "127.0.0.1:0",
        }
        self.process = subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, text=True
        )

    def hear(self, patience_s: float = PATIENCE_S) -> str:
        self._wire.settimeout(patience_s)
        return self._wire.recv(100).decode()

    def hear_word(self, word: str) -> None:
        while self.hear() != word:
            pass

    def hear_until_silent(self) -> None:
        """Until nothing has come for as long as the unit allows."""
        with suppress(TimeoutError):
            while self.hear(self.watchdog_s):
                pass

    def reload(self) -> None:
        words = [word.replace("$MAINPID", str(self.process.pid)) for word in self.reload_words]
        subprocess.run(words, check=True, timeout=PATIENCE_S)

    def close(self) -> None:
        self._wire.close()


@contextmanager
def managed(folder: Path, watchdog_us: int) -> Iterator[PlayedSystem]:
    manager = PlayedSystem("holdfast.service", folder, watchdog_us)
    try:
        yield manager
    finally:
        manager.process.kill()
        manager.process.communicate(timeout=PATIENCE_S)
        manager.close()


def test_a_server_started_by_the_unit_is_ready_alive_reloaded_and_stopped(tmp_path: Path) -> None:
    with managed(tmp_path, watchdog_us=200_000) as manager:
        manager.hear_word("READY=1")
        assert (tmp_path / "holdfast" / "token").stat().st_mode & 0o777 == 0o600
        for _ in range(3):
            manager.hear_word("WATCHDOG=1")
        manager.reload()
        assert any("settings were read again" in line for line in manager.process.stderr)
        manager.process.send_signal(signal.SIGTERM)
        manager.hear_word("STOPPING=1")
        assert manager.process.wait(timeout=PATIENCE_S) == 0


def test_a_server_that_is_stuck_is_silent_so_that_it_is_started_again(tmp_path: Path) -> None:
    """Stopped by a signal, its loop stands still as one that is stuck does; the manager sees only
    that nothing comes, and ends it as systemd would."""
    with managed(tmp_path, watchdog_us=1_000_000) as manager:
        manager.hear_word("WATCHDOG=1")
        manager.process.send_signal(signal.SIGSTOP)
        manager.hear_until_silent()
        manager.process.send_signal(signal.SIGKILL)
        assert manager.process.wait(timeout=PATIENCE_S) == -signal.SIGKILL

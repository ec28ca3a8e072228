"""The newcomer's first minute, as it is typed."""

import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "holdfast")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Whatever the demo leaves behind, it leaves it here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    kept.pop("COLUMNS", None)
    return {**kept, "TMPDIR": str(tmp_path), "NO_COLOR": "1"}


def run(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )


def left_behind(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("holdfast-demo"))


def test_the_demo_kills_a_worker_loses_nothing_and_cleans_up(
    environment: dict[str, str], tmp_path: Path
) -> None:
    done = run(environment, "demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "60/60" in done.stdout
    assert re.search(r"killed worker blue with SIGKILL \(20/60 done\)", done.stdout)
    assert re.search(r"^blue +SILENT", done.stdout, re.MULTILINE)
    counts = dict(re.findall(r"^  ([a-z ]+?) +(\d+)", done.stdout, re.MULTILINE))
    assert (counts["lost"], counts["committed twice"]) == ("0", "0")
    assert "holdfast demo --crash" in done.stdout
    assert "\x1b" not in done.stdout
    assert left_behind(tmp_path) == []


@pytest.mark.slow
def test_everything_the_demo_tells_to_type_really_works(
    environment: dict[str, str], tmp_path: Path
) -> None:
    done = run(environment, "demo", "--keep")
    assert done.returncode == 0
    (name,) = left_behind(tmp_path)
    data = str(tmp_path / name / "state")
    assert f"export HOLDFAST_DATA_DIR={data}" in done.stdout
    told = re.findall(r"^(?:\$ |    )holdfast (.*?)(?:   .*)?$", done.stdout, re.MULTILINE)
    typed = [line for line in told if line.split()[0] not in ("demo", "serve", "worker")]
    assert len(typed) >= 8
    for line in typed:
        shown = run({**environment, "HOLDFAST_DATA_DIR": data}, *shlex.split(line))
        assert shown.returncode == 0, (line, shown.stderr)
        assert shown.stdout, line
        if line.startswith("task show"):
            assert shown.stdout in done.stdout


@pytest.mark.slow
def test_three_kills_lose_nothing_and_commit_nothing_twice(
    environment: dict[str, str], tmp_path: Path
) -> None:
    done = run(environment, "demo", "--crash")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(r"killed process \d+ \(\d+/400 done\)", done.stdout)) == 3
    counts = dict(re.findall(r"^([a-z ]+?) +(\d+)   ", done.stdout, re.MULTILINE))
    assert counts["acknowledged"] == counts["committed"] == "400"
    assert counts["lost"] == counts["committed twice"] == counts["changed results"] == "0"
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"]
)
@pytest.mark.parametrize("options", [(), ("--crash",)], ids=["plain", "crash"])
def test_a_demo_that_is_stopped_cleans_up_and_says_so(
    environment: dict[str, str], tmp_path: Path, number: int, code: int, options: tuple[str, ...]
) -> None:
    child = subprocess.Popen(
        [*COMMAND, "demo", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert child.stdout is not None
    # Its first line is printed when the folder is there and the work is about to begin.
    assert child.stdout.readline()
    child.send_signal(number)
    _, told = child.communicate(timeout=60)
    assert child.returncode == code
    assert told.strip() == ("holdfast: interrupted" if code == 130 else "")
    assert left_behind(tmp_path) == []


@pytest.mark.slow
def test_progress_is_drawn_on_a_terminal_and_never_among_the_data(
    environment: dict[str, str], tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*COMMAND, "demo"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**environment, "TERM": "xterm"},
    )
    os.close(theirs)
    assert child.stdout is not None
    drawn = b""
    try:
        while chunk := os.read(ours, 4096):
            drawn += chunk
    except OSError:
        pass  # The other end is closed: the child has drawn everything.
    finally:
        os.close(ours)
    told = child.stdout.read().decode()
    child.stdout.close()
    assert child.wait(60) == 0
    assert "60/60" in drawn.decode()
    assert "━" in drawn.decode()
    assert "━" not in told

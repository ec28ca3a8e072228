"""The `holdfast` command as a process: codes, streams, and what it costs to start."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

COMMAND = (sys.executable, "-m", "holdfast")


def clean_environment(**more: str) -> dict[str, str]:
    meddlers = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "HOLDFAST_DATA_DIR", "HOLDFAST_OUTPUT")
    kept = {name: value for name, value in os.environ.items() if name not in meddlers}
    return {**kept, **more}


def run(*arguments: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=clean_environment(**environment),
        timeout=60,
        check=False,
    )


def double(number: int) -> int:
    if number == 3:
        raise ValueError("three is not for doubling")
    return number * 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log made by the embedded client, closed again."""
    path = tmp_path_factory.mktemp("e2e") / "state"
    with holdfast.open(path, workers=2) as hf:
        assert hf.map(double, range(5), name="doubles").wait(30)
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("job", "list", "--data", "FOLDER"), 0, ""),
        (("job", "show", "last", "--data", "FOLDER", "-o", "json"), 0, ""),
        (("task", "show", "last/3", "--data", "FOLDER"), 0, ""),
        (("transactions", "--data", "FOLDER", "-o", "jsonl"), 0, ""),
        (("log", "verify", "FOLDER"), 0, ""),
        (("log", "dump", "FOLDER"), 0, ""),
        (("log", "stats", "FOLDER"), 0, ""),
        (("states",), 0, ""),
        (("job", "list", "--data", "FOLDER", "--at", "99999"), 1, "ends at position"),
        (("states", "--check", "no-such-file"), 1, "holdfast states --write"),
        (("nonsense",), 2, "holdfast --help"),
        (("job", "list", "--at", "soon"), 2, "write a position"),
        (("job", "show", "nobody", "--data", "FOLDER"), 4, "holdfast job list"),
        (("job", "list", "--data", "no-such-folder"), 4, "holdfast demo"),
    ],
)
def test_codes_and_streams_are_as_shells_expect(
    folder: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = run(*(str(folder) if each == "FOLDER" else each for each in arguments))
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if code:
        assert done.stdout == ""
        assert done.stderr.startswith("holdfast: ")
        assert words in done.stderr
    else:
        assert done.stdout
        assert done.stderr == ""


def test_what_the_client_did_is_what_the_command_shows(folder: Path) -> None:
    job = json.loads(run("job", "show", "last", "--data", folder, "-o", "json").stdout)
    assert (job["name"], job["state"], job["reason"]) == ("doubles", "FAILED", "quarantined")
    assert (job["counts"]["SUCCEEDED"], job["counts"]["QUARANTINED"]) == (4, 1)
    task = json.loads(run("task", "show", "last/3", "--data", folder, "-o", "json").stdout)
    assert task["error"] == "ValueError: three is not for doubling"
    assert "three is not for doubling" in task["traceback"]
    assert [attempt["status"] for attempt in task["attempts"]] == ["ABORTED"]


def test_help_loads_nothing_it_does_not_need() -> None:
    heavy = ("holdfast.coordinator", "holdfast.client", "holdfast.worker", "rich", "msgspec")
    program = (
        "import sys\n"
        "from holdfast.cli.main import main\n"
        "code = main(['--help'])\n"
        f"print([name for name in {heavy!r} if name in sys.modules], code, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "[] 0\n"


def test_reading_commands_do_not_draw_with_rich_in_a_pipe(folder: Path) -> None:
    program = (
        "import sys\n"
        "from holdfast.cli.main import main\n"
        f"main(['job', 'list', '--data', {str(folder)!r}])\n"
        "print('rich' in sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == "False\n"


def test_a_pipe_gets_no_colours_unless_they_are_forced(folder: Path) -> None:
    listing = ("job", "list", "--data", folder)
    assert "\x1b" not in run(*listing).stdout
    assert "\x1b" in run(*listing, FORCE_COLOR="1").stdout
    assert "\x1b" not in run(*listing, FORCE_COLOR="1", NO_COLOR="1").stdout


def on_terminal(folder: Path, **environment: str) -> str:
    """The job list as it is drawn on a terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*COMMAND, "job", "list", "--data", str(folder)],
        stdout=theirs,
        env=clean_environment(TERM="xterm", **environment),
    )
    os.close(theirs)
    drawn = b""
    try:
        while chunk := os.read(ours, 4096):
            drawn += chunk
    except OSError:
        pass  # The other end is closed: the child has said everything.
    finally:
        os.close(ours)
        child.wait(60)
    assert child.returncode == 0
    return drawn.decode()


def test_a_terminal_gets_colours_unless_they_are_unwanted(folder: Path) -> None:
    assert "\x1b[31mFAILED\x1b[0m" in on_terminal(folder)
    assert "\x1b" not in on_terminal(folder, NO_COLOR="1")


def test_the_width_comes_from_columns(folder: Path) -> None:
    narrow = run("transactions", "--data", folder, COLUMNS="72").stdout
    wide = run("transactions", "--data", folder).stdout
    assert max(map(len, narrow.splitlines())) <= 72
    assert "…" in narrow
    assert "…" not in wide


def test_a_reader_that_has_seen_enough_ends_the_command_quietly(folder: Path) -> None:
    child = subprocess.Popen(
        [*COMMAND, "log", "dump", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    told = child.stderr.read()
    child.stderr.close()
    assert child.wait(60) == 141
    assert told == b""


def test_a_folder_in_use_can_be_looked_at_and_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with holdfast.open(path, workers=1) as hf:
        assert hf.submit(double, 4).result(timeout=30) == 8
        listed = run("job", "list", "--data", path, "-o", "json")
        assert [job["state"] for job in json.loads(listed.stdout)["jobs"]] == ["SUCCEEDED"]
        assert run("log", "verify", path).returncode == 0
        refused = run("log", "snapshot", path)
        assert (refused.returncode, refused.stdout) == (75, "")
        assert f"process {os.getpid()}" in refused.stderr
    taken = run("log", "snapshot", path, "-o", "json")
    assert taken.returncode == 0, taken.stderr
    made = json.loads(taken.stdout)
    assert [file.stem for file in (path / "snapshots").glob("*.snap")] == [
        f"{made['position']:020d}"
    ]
    verified = json.loads(run("log", "verify", path, "-o", "json").stdout)
    assert (verified["ok"], verified["snapshots"]) == (True, 1)
    assert verified["last_position"] == made["position"] + 1

"""What the README tells a newcomer to type works, in the order it is told."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
PATIENCE_S = 120

NAP = "time.sleep(0.05)"
"""The README naps so that a reader has time to kill the program; a test has not."""


def programs() -> dict[str, str]:
    """The programs of the README by the name in their first line."""
    text = README.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return dict(blocks)


def commands() -> list[list[str]]:
    """Every command that a reader is shown with the folders these programs make."""
    text = README.read_text(encoding="utf-8")
    return [shlex.split(line) for line in re.findall(r"^    \$ holdfast (.+)$", text, re.MULTILINE)]


def shown_after(command: str) -> str:
    """What the README shows below a command, up to the next one or the end of the block."""
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"^    \$ {re.escape(command)}\n((?:    (?!\$).+\n)+)", text, re.MULTILINE)
    assert found is not None, command
    return re.sub(r"^    ", "", found[1], flags=re.MULTILINE)


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A newcomer's folder, with the programs of the README in it."""
    place = tmp_path_factory.mktemp("newcomer")
    for name, source in programs().items():
        (place / name).write_text(source.replace(NAP, "time.sleep(0.0005)"), encoding="utf-8")
    return place


def test_a_newcomer_sees_what_the_readme_shows(folder: Path) -> None:
    assert sorted(programs()) == ["invoices.py", "segfault.py", "slow.py", "squares.py"]
    assert run(folder, "squares.py") == shown_after("python squares.py")
    assert run(folder, "slow.py") == shown_after("python slow.py")
    # The key finds the same job again, and its results are read from the log.
    assert run(folder, "slow.py") == shown_after("python slow.py")
    assert run(folder, "segfault.py") == shown_after("python segfault.py")
    tasks = shown_after("holdfast task list 1 --data crashing")
    assert run(folder, "-m", "holdfast", "task", "list", "1", "--data", "crashing") == tasks
    # The second time nothing is owed any more, and nothing happens again.
    for _ in range(2):
        assert run(folder, "invoices.py") == shown_after("python invoices.py")
        assert len((folder / "ledger.jsonl").read_text().splitlines()) == 20
        assert len(list((folder / "invoices").iterdir())) == 20
    assert len(commands()) >= 8
    for command in commands():
        assert run(folder, "-m", "holdfast", *command)

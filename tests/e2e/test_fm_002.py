"""FM-002, the torn output: a task is killed in the middle of a file that somebody else reads.

One test writes as one would without thinking, and finds half a file where a whole one was; the
others stage, and find the old one or the new one, whole, whatever happens.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import TaskFailed
from holdfast.testing.torn import HALF, NEW, OLD

PATIENCE_S = 60


def write(folder: Path, how: str, fate: str) -> int:
    command = [sys.executable, "-m", "holdfast.testing.torn", str(folder), how, fate]
    return subprocess.run(command, timeout=PATIENCE_S, check=False).returncode


def content(folder: Path) -> str:
    return (folder / "report.txt").read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "report.txt").write_text(OLD)
    return tmp_path


def test_fm_002_written_in_place_it_is_torn(folder: Path) -> None:
    assert write(folder, "plain", "dies") == -signal.SIGKILL
    assert content(folder) == HALF, "half of the new, and nothing of the old"


def test_fm_002_staged_it_is_whole_whenever_anybody_looks(folder: Path) -> None:
    assert write(folder, "staged", "dies") == -signal.SIGKILL
    assert content(folder) == OLD
    assert write(folder, "staged", "lives") == 0
    assert content(folder) == NEW
    # What the dead attempt wrote beside it was collected.
    assert sorted(path.name for path in folder.iterdir()) == ["report.txt", "state"]


def fails_late(target: str) -> None:
    with holdfast.current().stage(target) as file:
        file.write("not to be")
    raise ValueError("after all")


def test_fm_002_an_attempt_that_does_not_commit_changes_nothing(folder: Path) -> None:
    with holdfast.open(folder / "state", workers=1) as hf, pytest.raises(TaskFailed):
        hf.submit(fails_late, str(folder / "report.txt")).result(PATIENCE_S)
    assert content(folder) == OLD
    assert sorted(path.name for path in folder.iterdir()) == ["report.txt", "state"]

"""Every trouble has a code that shells can rely on and words that say what to do."""

from pathlib import Path

import click
import pytest

from holdfast.cli.errors import Trouble, report
from holdfast.client import errors as client
from holdfast.coordinator.inspect import HistoryGone, NoLog, Unreachable
from holdfast.core.errors import BrokenInvariant

PLACE = Path("state")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (Trouble("no", 4), 4, "no"),
        (click.UsageError("odd"), 2, "odd"),
        (click.BadParameter("odd"), 2, "odd"),
        (click.FileError("f", "cannot"), 1, "cannot"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (client.Refused("not_found", "no job"), 4, "no job"),
        (client.Refused("gone", "left"), 4, "left"),
        (client.Refused("invalid", "zero"), 2, "zero"),
        (client.Refused("key_reused", "other"), 5, "other"),
        (client.Refused("conflict", "other"), 5, "other"),
        (client.JobFailed("1", "FAILED", ""), 1, "job 1 is FAILED"),
        (client.LogInUse(PLACE, "process 7"), 75, "holdfast job list --data state"),
        (client.LogDamaged(PLACE / "wal" / "1.seg", 9, "odd"), 1, "holdfast log verify state"),
        (client.NewerFormat(PLACE, 2, 1), 1, "pip install --upgrade holdfast"),
        (client.DiskFull(PLACE, 10), 1, "no room"),
        (HistoryGone(7), 1, "holdfast transactions --at 7"),
        (NoLog(PLACE), 4, "--data"),
        (NoLog(PLACE), 4, "holdfast demo"),
        (Unreachable("ends at 3"), 1, "ends at 3"),
        (BrokenInvariant("odd"), 1, "holdfast log verify"),
        (PermissionError(13, "Permission denied", "state"), 1, "state: Permission denied"),
    ],
)
def test_trouble_is_told_on_stderr_with_its_code(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("holdfast: ")
    assert words in err
    assert "Traceback" not in err


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        report(ZeroDivisionError())

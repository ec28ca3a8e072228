"""What killed attempts have staged is found by their journals, and goes when nobody is owed it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.wire.delivery import Origin
from holdfast.worker.leftovers import LINES_MAX, RECEIPT, Journal, Leftovers

STAGER = """
import os, signal, sys
from pathlib import Path
from holdfast.wire.delivery import Origin
from holdfast.worker.leftovers import Journal
from holdfast.worker.staging import Outputs, Staging
journal = Journal(Path(sys.argv[1]))
for lease in (1, 2):
    files = Staging(Origin("log", "5", 0, lease), Outputs(), journal, sys.argv[2])
    with files.file(f"out-{lease}") as file:
        file.write("half")
print("staged", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def origin(lease: int, log: str = "log") -> Origin:
    return Origin(log, JobId("5"), Index(0), LeaseId(lease))


def test_nothing_is_taken_from_the_living_and_all_that_is_not_owed_from_the_dead(
    tmp_path: Path,
) -> None:
    journals, home = tmp_path / "staged", tmp_path / "home"
    home.mkdir()
    words = [sys.executable, "-c", STAGER, str(journals), str(home)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as stager:
        assert stager.stdout is not None
        assert stager.stdout.readline() == b"staged\n"
        leftovers = Leftovers(journals)
        assert leftovers.find() == ()
        stager.send_signal(signal.SIGKILL)
    assert leftovers.find() == (origin(1), origin(2))
    assert leftovers.remove((origin(1), origin(2)), {LeaseId(2)}) == 1
    assert [name.split(".holdfast")[0] for name in os.listdir(home)] == [".out-1"]
    assert leftovers.find() == (origin(1),)
    leftovers.remove((origin(1),), {LeaseId(1)})
    assert leftovers.find() == ()
    assert os.listdir(home) == os.listdir(journals) == []


def test_a_receipt_is_a_leftover_too(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "staged")
    file = tmp_path / "x"
    journal.note(origin(1), str(file))
    Path(f"{file}{RECEIPT}").touch()
    journal.close()
    leftovers = Leftovers(tmp_path / "staged")
    assert leftovers.find() == (origin(1),)
    assert leftovers.remove((origin(1),), {LeaseId(1)}) == 1
    assert os.listdir(tmp_path) == ["staged"]


def test_a_journal_forgets_files_that_are_gone(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "staged")
    (tmp_path / "0").touch()
    for number in range(LINES_MAX + 1):
        journal.note(origin(number), str(tmp_path / str(number)))
    [path] = (tmp_path / "staged").iterdir()
    assert len(path.read_bytes().splitlines()) == 2


def test_a_line_cut_short_by_a_death_is_passed_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "staged")
    (tmp_path / "x").touch()
    journal.note(origin(1), str(tmp_path / "x"))
    [path] = (tmp_path / "staged").iterdir()
    with path.open("ab") as file:
        file.write(b'[["log","5",0,2],"/no')
    journal.close()
    assert Leftovers(tmp_path / "staged").find() == (origin(1),)


def test_where_nothing_was_ever_staged_nothing_is_found(tmp_path: Path) -> None:
    assert Leftovers(tmp_path / "nowhere").find() == ()

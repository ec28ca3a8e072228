"""A folder has one writer, through forks and deaths."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing.disks import FaultyDisk
from holdfast.wal import FileLog, LogInUse
from holdfast.wal.lock import LOCK_NAME, FolderLock


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path) -> None:
    log = FileLog.open(tmp_path)
    with pytest.raises(LogInUse) as refused:
        FileLog.open(tmp_path)
    assert refused.value.path == tmp_path
    assert f"process {os.getpid()}" in refused.value.owner
    assert Path(sys.argv[0]).name in refused.value.owner
    assert f"--data {tmp_path}" in str(refused.value)
    log.append([b"the first one goes on"], at=0, wall=0)
    log.sync()
    log.close()
    FileLog.open(tmp_path).close()


def test_the_lock_file_says_who_since_when_and_which_log(tmp_path: Path) -> None:
    log = FileLog.open(tmp_path)
    note = json.loads((tmp_path / LOCK_NAME).read_bytes())
    assert note["pid"] == os.getpid()
    assert note["log"] == log.log_id
    assert set(note) == {"pid", "command", "host", "since", "log"}
    log.close()


def test_a_very_long_command_still_fits_the_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["→" * 400, "x" * 5000])
    lock = FolderLock(FaultyDisk(), Path("/"))
    lock.release()
    log = FileLog.open(tmp_path)
    assert json.loads((tmp_path / LOCK_NAME).read_bytes())["pid"] == os.getpid()
    log.close()


def test_a_lock_file_that_is_deleted_lets_no_second_writer_in(tmp_path: Path) -> None:
    """People delete what looks like a leftover of a program that died."""
    log = FileLog.open(tmp_path)
    (tmp_path / LOCK_NAME).unlink()
    with pytest.raises(LogInUse, match="lock file was removed"):
        FileLog.open(tmp_path)
    log.append([b"the first one goes on"], at=0, wall=0)
    log.sync()
    log.close()
    again = FileLog.open(tmp_path)
    assert again.last == 1
    again.close()


@pytest.mark.parametrize("content", [b"", b"not json", b"[1]", b"{}", b"\xff\xfe"])
def test_a_lock_file_that_says_nothing_sensible_still_locks(content: bytes, tmp_path: Path) -> None:
    log = FileLog.open(tmp_path)
    (tmp_path / LOCK_NAME).write_bytes(content)
    with pytest.raises(LogInUse, match="another program"):
        FileLog.open(tmp_path)
    log.close()


def test_a_refused_opening_lets_go_of_the_lock(tmp_path: Path) -> None:
    FileLog.open(tmp_path).close()
    hint = tmp_path / "wal" / "acked"
    good = hint.read_bytes()
    hint.write_bytes(b"rot")
    with pytest.raises(Exception, match="damaged"):
        FileLog.open(tmp_path)
    hint.write_bytes(good)
    FileLog.open(tmp_path).close()


def test_everything_in_the_folder_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    FileLog.open(folder).close()
    for path in [folder, *folder.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


FORKED = """
import os, sys
from holdfast.core.errors import LogFailed
from holdfast.wal import FileLog, LogInUse

folder = sys.argv[1]
log = FileLog.open(folder)
log.append([b"parent"], at=0, wall=0)
log.sync()
asked, answer = os.pipe()
stay, leave = os.pipe()
child = os.fork()
if child == 0:
    # A grandchild comes through the same door once more.
    if (inner := os.fork()) == 0:
        os._exit(0)
    os.waitpid(inner, 0)
    faults = ""
    for call in (lambda: log.append([b"child"], at=0, wall=0), log.sync, log.note_idle):
        try:
            call()
            faults += "wrote;"
        except LogFailed as error:
            faults += "" if "forked child" in str(error) else f"{error};"
    log.close()
    log.close()
    os.write(answer, (faults or "refused").encode())
    os.close(leave)
    os.read(stay, 1)
    os._exit(0)
print("child:", os.read(asked, 1000).decode())
try:
    FileLog.open(folder)
    print("lock: lost")
except LogInUse:
    print("lock: held")
log.append([b"parent again"], at=0, wall=0)
log.sync()
if sys.argv[2] == "close":
    log.close()
else:
    # As a kill would: the parent's descriptors are gone without a word, the child lives on.
    os.close(log._lock._fd)
    os.close(log._hint._fd)
again = FileLog.open(folder)
print("records:", [r.decode() for f in again.read() for r in f.records], "epoch:", again.epoch)
os.close(leave)
os.waitpid(child, 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["close", "die"])
def test_a_forked_child_neither_writes_nor_frees_nor_keeps_the_log(
    ending: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(tmp_path / "data"), ending],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "child: refused",
        "lock: held",
        "records: ['parent', 'parent again'] epoch: 2",
    ]


def test_a_program_started_by_the_writer_does_not_inherit_the_log(tmp_path: Path) -> None:
    log = FileLog.open(tmp_path)
    for fd in (log._fd, log._lock._fd, log._hint._fd):
        assert not os.get_inheritable(fd)
    log.close()

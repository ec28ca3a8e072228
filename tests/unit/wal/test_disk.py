"""The real disk: what the port promises, and the log on it through limits and kills."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing.disks import FaultyDisk
from holdfast.wal import FileLog, RealDisk
from holdfast.wal.disk import Disk, is_full, make_folder, read_all, write_all


@pytest.fixture(params=["real", "simulated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, Path]:
    return (RealDisk(), tmp_path) if request.param == "real" else (FaultyDisk(), Path("/"))


def test_files_hold_what_was_written_where_it_was_written(place: tuple[Disk, Path]) -> None:
    disk, folder = place
    path = folder / "f"
    fd = disk.open(path, create=True)
    write_all(disk, fd, b"hello", 3)
    assert disk.size(fd) == 8
    assert disk.pread(fd, 100, 0) == b"\0\0\0hello"
    assert disk.pread(fd, 2, 4) == b"el"
    assert disk.pread(fd, 2, 90) == b""
    disk.truncate(fd, 4)
    disk.fdatasync(fd)
    disk.fsync(fd)
    disk.close(fd)
    assert read_all(disk, path) == b"\0\0\0h"


def test_names_come_go_and_change(place: tuple[Disk, Path]) -> None:
    disk, folder = place
    make_folder(disk, folder / "a" / "b")
    make_folder(disk, folder / "a" / "b")
    disk.mkdir(folder / "a")
    disk.close(disk.open(folder / "a" / "x", create=True))
    disk.close(disk.open(folder / "a" / "y", create=True))
    disk.rename(folder / "a" / "x", folder / "a" / "y")
    assert disk.listdir(folder / "a") == ["b", "y"]
    disk.unlink(folder / "a" / "y")
    disk.fsync_dir(folder / "a")
    assert disk.listdir(folder / "a") == ["b"]
    assert disk.exists(folder / "a" / "b")
    assert not disk.exists(folder / "a" / "y")
    for missing in (disk.unlink, disk.open, disk.listdir):
        with pytest.raises(FileNotFoundError):
            missing(folder / "absent")


def test_a_lock_has_one_holder(place: tuple[Disk, Path]) -> None:
    disk, folder = place
    fd = disk.lock(folder / "l")
    assert fd is not None
    assert disk.lock(folder / "l") is None
    disk.unlock(fd)
    again = disk.lock(folder / "l")
    assert again is not None
    disk.unlock(again)


def test_a_sync_reaches_the_platter_where_a_plain_one_would_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda fd, command: asked.append(command))
    disk = RealDisk()
    fd = disk.open(tmp_path / "f", create=True)
    disk.fdatasync(fd)
    disk.fsync(fd)
    disk.fsync_dir(tmp_path)
    disk.close(fd)
    assert asked == [51, 51, 51]


class Stubborn(FaultyDisk):
    """Takes two bytes, then none, and gives no reason."""

    def pwrite(self, fd: int, content: bytes, offset: int) -> int:
        return super().pwrite(fd, content[:2], offset) if offset == 0 else 0


def test_a_disk_that_takes_nothing_is_an_error_not_a_loop() -> None:
    disk = Stubborn()
    with pytest.raises(OSError, match="takes no more"):
        write_all(disk, disk.open(Path("/f"), create=True), b"abc", 0)


def test_every_way_of_running_out_of_space_counts() -> None:
    assert [is_full(OSError(code, "")) for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)] == [
        True,
        True,
        True,
    ]
    assert not is_full(OSError(errno.EIO, ""))


LIMITED = """
import resource, signal, sys
from holdfast.wal import DiskFull, FileLog

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = FileLog.open(sys.argv[1])
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, hard))
log.append([b"x" * 1_000_000], at=0, wall=0)
log.sync()
try:
    log.append([b"y" * 2_000_000], at=0, wall=0)
except DiskFull:
    print("full", log.pressure, log.last)
log.append([b"small"], at=0, wall=0)
print("durable", log.sync())
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
log.append([b"y" * 2_000_000], at=0, wall=0)
print("durable", log.sync(), log.pressure)
log.close()
"""


@pytest.mark.slow
def test_a_limit_on_the_real_disk_is_backpressure_and_clears(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["full True 1", "durable 2", "durable 3 False"]


WRITER = """
import sys
from holdfast.wal import FileLog

log = FileLog.open(sys.argv[1], segment_bytes=16384)
while True:
    log.append([b"%d" % (log.last + 1) * 40], at=0, wall=0)
    print(log.sync(), flush=True)
"""


@pytest.mark.slow
def test_what_a_killed_writer_acknowledged_is_there(tmp_path: Path) -> None:
    acked = 0
    for kill in range(1, 6):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(kill * 37):
                acked = int(writer.stdout.readline())
            writer.kill()
            # What was still in the pipe had been acknowledged too.
            rest = [line for line in writer.stdout.read().split("\n")[:-1] if line]
            acked = int(rest[-1]) if rest else acked
        log = FileLog.open(tmp_path, segment_bytes=16384)
        assert log.last >= acked
        records = [record for frame in log.read() for record in frame.records]
        assert records == [b"%d" % number * 40 for number in range(1, log.last + 1)]
        log.close()


def test_a_descriptor_is_not_passed_on_to_other_programs(tmp_path: Path) -> None:
    disk = RealDisk()
    fd = disk.open(tmp_path / "f", create=True)
    assert not os.get_inheritable(fd)
    disk.close(fd)

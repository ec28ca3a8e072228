"""Real disks that are full: no half record survives, and a restart needs no room at all."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.testing.logs import put, records_of
from holdfast.testing.mounts import in_memory, run
from holdfast.testing.tools import ROOT
from holdfast.wal import DiskFull, FileLog

PATIENCE_S = 600
RECORDS = 50
SHARE = 4
SEGMENT_BYTES = 16 * 1024
ROOM = 256 * 1024


def fill(folder: Path, records: int) -> int:
    """How often a record was cut short; the program fails where anything of one was left."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast.testing.brimful", str(folder), str(records)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
def test_a_file_that_may_not_grow_beyond_any_byte_of_a_record_holds_no_half_of_it(
    tmp_path: Path,
) -> None:
    assert fill(tmp_path / "data", SHARE) > 200


@pytest.mark.soak
@pytest.mark.needs(ROOT)
def test_space_that_ends_at_every_byte_of_fifty_records_leaves_no_half_of_any(
    tmp_path: Path,
) -> None:
    with in_memory(tmp_path / "small", 64 * 2**20) as place:
        assert fill(place / "data", RECORDS) > 3_000


def write_for_ever(log: FileLog, written: list[bytes]) -> None:
    while True:
        content = b"%d" % len(written) * 200
        put(log, content)
        written.append(content)


def fill_up(path: Path) -> None:
    with path.open("wb", buffering=0) as filler:
        while filler.write(b"x" * 4096):
            pass


@pytest.mark.slow
@pytest.mark.needs(ROOT)
def test_a_file_system_without_one_free_byte_is_opened_again_and_has_everything(
    tmp_path: Path,
) -> None:
    with in_memory(tmp_path / "small", ROOM) as place:
        written: list[bytes] = []
        log = FileLog.open(place / "data", segment_bytes=SEGMENT_BYTES)
        with pytest.raises(DiskFull):
            write_for_ever(log, written)
        assert log.pressure
        with pytest.raises(OSError, match="No space"):
            fill_up(place / "filler")
        for _ in range(3):
            log.close()
            log = FileLog.open(place / "data", segment_bytes=SEGMENT_BYTES)
            assert records_of(log) == written
        with pytest.raises(DiskFull):
            put(log, b"y" * SEGMENT_BYTES)
        run("mount", "-o", f"remount,size={2 * ROOM}", place)
        put(log, b"y" * SEGMENT_BYTES)
        log.close()
        again = FileLog.open(place / "data", segment_bytes=SEGMENT_BYTES)
        assert records_of(again) == [*written, b"y" * SEGMENT_BYTES]
        again.close()

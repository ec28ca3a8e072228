"""Files that forget from the front: what is read of them, and what is told as lost."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.worker.captures import ALIGNED, CaptureFile, LaneFiles, punch
from holdfast.worker.outputs import Capture

MEGA = 1024 * 1024


@pytest.fixture
def file(tmp_path: Path) -> Iterator[CaptureFile]:
    found = CaptureFile.in_folder(tmp_path / "made")
    yield found
    found.close()


def occupied(descriptor: int) -> int:
    return os.fstat(descriptor).st_blocks * 512


@pytest.fixture
def punching(tmp_path: Path) -> None:
    with (tmp_path / "try").open("wb+") as file:
        file.write(bytes(2 * ALIGNED))
        file.flush()
        if not punch(file.fileno(), 0, ALIGNED):
            pytest.skip("this disk cannot punch holes")


def test_programs_that_share_a_file_never_overwrite_each_other(file: CaptureFile) -> None:
    for word in ("one", "two"):
        subprocess.run(["echo", word], stdout=file.descriptor, check=True)
    # One that opens its output anew begins at its front, and appends all the same.
    subprocess.run(["sh", "-c", "echo three >> /dev/stdout"], stdout=file.descriptor, check=True)
    assert file.read(0, file.size()) == (0, b"one\ntwo\nthree\n")
    assert file.read(4, 7) == (4, b"two")


@pytest.mark.usefixtures("punching")
def test_what_is_lost_in_the_middle_is_told_by_where_the_rest_begins(file: CaptureFile) -> None:
    text = os.urandom(MEGA)
    os.write(file.descriptor, text)
    file.lose(100_000, 900_000)
    begin, head = file.read(0, MEGA)
    assert begin == 0
    assert 100_000 <= len(head) < 100_000 + ALIGNED
    assert head == text[: len(head)]
    after, tail = file.read(len(head), MEGA)
    assert 900_000 - ALIGNED < after <= 900_000
    assert tail == text[after:]
    # In the middle of what is lost, too.
    assert file.read(500_000, MEGA) == (after, tail)
    assert file.read(500_000, 600_000) == (600_000, b"")


@pytest.mark.usefixtures("punching")
def test_what_nobody_needs_any_more_costs_nothing(file: CaptureFile) -> None:
    for _ in range(20):
        os.write(file.descriptor, bytes(MEGA))
        file.forget(file.size())
    assert file.size() == 20 * MEGA
    assert occupied(file.descriptor) < 2 * MEGA


def test_nothing_is_read_where_nothing_is(file: CaptureFile) -> None:
    assert file.read(0, 0) == (0, b"")
    os.write(file.descriptor, b"abc")
    assert file.read(3, 3) == (3, b"")


def test_lanes_have_two_files_each(tmp_path: Path) -> None:
    files = LaneFiles(tmp_path, 3)
    numbers = {file.descriptor for lane in files.lanes for file in lane}
    files.close()
    assert len(numbers) == 6
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("punching")
def test_a_long_capture_keeps_its_head_and_a_tail_that_moves_on(tmp_path: Path) -> None:
    path = tmp_path / "stdout"
    capture = Capture(path, head_max=MEGA, tail_max=MEGA)
    text = os.urandom(10 * MEGA)
    for at in range(0, len(text), 64 * 1024):
        capture.add(text[at : at + 64 * 1024])
    found = CaptureFile.at(path)
    assert occupied(found.descriptor) <= 4 * MEGA
    _, head = found.read(0, found.size())
    after, tail = found.read(len(head), found.size())
    assert len(head) >= MEGA
    assert len(tail) >= MEGA
    assert head == text[: len(head)]
    assert tail == text[after:]
    found.close()
    capture.close()

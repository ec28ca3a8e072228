"""What a command prints is kept within bounds, and says what is missing."""

from pathlib import Path

import pytest

from holdfast.worker import outputs
from holdfast.worker.outputs import LAST_WORDS_LINES_MAX, Capture


def test_a_short_output_is_kept_as_it_came(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "out")
    capture.add(b"one\n")
    assert (tmp_path / "out").read_bytes() == b"one\n"
    capture.add(b"two\n")
    capture.close()
    assert (tmp_path / "out").read_bytes() == b"one\ntwo\n"


def test_of_a_long_output_the_head_and_the_tail_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "punch", lambda *_: False)
    capture = Capture(tmp_path / "out", head_max=4, tail_max=4_096)
    for number in range(3_000):
        capture.add(b"%09d\n" % number)
    capture.close()
    head, mark, tail = (tmp_path / "out").read_text().partition("\n… ")
    assert (head, mark) == ("0000", "\n… ")
    assert tail.startswith(f"{30_000 - 4 - 4_096} bytes left out …\n")
    assert tail.endswith("000002999\n")


def test_the_last_words_are_a_few_lines_whatever_bytes_they_are(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "out")
    capture.add(b"".join(b"%d\n" % number for number in range(100)))
    capture.add(b"\xff end \n\n")
    words = capture.last_words().splitlines()
    assert len(words) == LAST_WORDS_LINES_MAX
    assert words[-2:] == ["99", "\ufffd end"]
    capture.close()


def test_a_full_disk_costs_the_output_alone() -> None:
    capture = Capture(Path("/dev/full"))
    capture.add(b"lost\n")
    capture.close()
    assert capture.last_words() == "lost"

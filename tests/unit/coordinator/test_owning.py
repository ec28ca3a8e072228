"""Who owns a folder and how its clocks stand, learnt without disturbing anybody."""

import os
from pathlib import Path

from holdfast.coordinator.owning import drift_of, owner_of
from holdfast.wal import FileLog


def test_the_owner_is_who_has_it_open_and_nobody_else(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    assert owner_of(folder) == ""
    log = FileLog.open(folder)
    assert owner_of(folder).startswith(f"process {os.getpid()} on ")
    log.close()
    # The note is still there, and so is this process.
    assert (folder / "holdfast.lock").read_bytes()
    assert owner_of(folder) == ""


def test_a_note_that_says_nothing_names_nobody(tmp_path: Path) -> None:
    for text in ("", "{}", "nonsense", '{"pid": "x"}', '{"pid": 4194305}'):
        (tmp_path / "holdfast.lock").write_text(text)
        assert owner_of(tmp_path) == ""


def frames(path: Path, *clocks: tuple[int, int], epochs: int = 1) -> Path:
    for _ in range(epochs):
        log = FileLog.open(path)
        for at, wall in clocks:
            log.append([b"x"], at=at, wall=wall)
            log.sync()
        log.close()
    return path


def test_clocks_that_part_are_seen_and_those_of_former_openings_do_not_count(
    tmp_path: Path,
) -> None:
    assert drift_of(frames(tmp_path / "a", (1_000, 5_000), (2_000, 6_000)), 7_000).drift_ms == 0
    path = frames(tmp_path / "b", (1_000, 5_000), (2_000, 16_000))
    assert (drift_of(path, 17_000).drift_ms, drift_of(path, 15_000).ahead_ms) == (10_000, 1_000)
    frames(path, (3_000, 18_000), (4_000, 19_000))
    assert drift_of(path, 20_000).drift_ms == 0

"""The order in which a snapshot is made, recorded, and history let go of."""

import sys
from pathlib import Path

import pytest

from holdfast.coordinator.desk import Desk
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.snapshotting import Made, Snapshotter
from holdfast.core import commands as c
from holdfast.core.errors import LogFailed
from holdfast.core.ids import Position
from holdfast.wal import MemoryLog

MADE = Made(position=Position(7), state_hash="hash", drop_before=5)


class Journal(MemoryLog):
    """Notes what is dropped, beside what others note."""

    def __init__(self, done: list[str]) -> None:
        super().__init__()
        self.done = done

    def drop_segments(self, before_position: int, archive: Path | None = None) -> int:
        self.done.append(f"dropped before {before_position}")
        return super().drop_segments(before_position, archive)


@pytest.fixture
def second_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that says it made the snapshot."""
    program = tmp_path / "python"
    told = '{"position":7,"state_hash":"hash","drop_before":5}'
    program.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{told}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


@pytest.mark.usefixtures("second_process")
def test_nothing_is_dropped_before_the_snapshot_is_recorded(tmp_path: Path) -> None:
    done: list[str] = []

    def install(command: c.InstallSnapshot) -> None:
        done.append(f"recorded {command.at_position}")

    snapshotter = Snapshotter(tmp_path, Journal(done), Settings(), lambda: 0, install, Desk())
    assert snapshotter.make() == MADE
    assert done == ["recorded 7", "dropped before 5"]


@pytest.mark.usefixtures("second_process")
def test_nothing_is_dropped_where_the_snapshot_could_not_be_recorded(tmp_path: Path) -> None:
    done: list[str] = []
    old = [tmp_path / "snapshots" / f"{position:020d}.snap" for position in (1, 2, 3)]
    for path in old:
        path.parent.mkdir(exist_ok=True)
        path.touch()

    def install(command: c.InstallSnapshot) -> None:
        raise LogFailed("no")

    snapshotter = Snapshotter(tmp_path, Journal(done), Settings(), lambda: 0, install, Desk())
    assert snapshotter.make() is None
    assert done == []
    assert all(path.exists() for path in old)

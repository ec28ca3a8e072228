"""The counting of `holdfast demo --crash`, which would notice what must not happen; and its end."""

import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

from holdfast.cli import crash
from holdfast.cli.crash import Count, compare, read_notes
from holdfast.coordinator.inspect import look_into
from holdfast.core.record import Record, decode_record, encode_record
from holdfast.testing.world import World


def value_of(index: int) -> int:
    return index * 10


def committed(*indices: int, count: int = 4) -> World:
    world = World()
    world.submit("", items=tuple(b"x" for _ in range(count)))
    for index in indices:
        (lease,) = world.grant("1", index)
        world.start("1", index, lease)
        world.commit("1", index, lease, result=msgspec.msgpack.encode([index, value_of(index)]))
    return world


def notes(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "diary.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_nothing_lost_and_nothing_twice_is_good(write, tmp_path: Path) -> None:
    diary = notes(tmp_path, "items 2", "result 1 10", "items 4", "result 1 10", "result 0 0")
    count = compare(look_into(write(committed(0, 1, 2, 3))), diary)
    assert count == Count(
        acknowledged=4, committed=4, lost=0, twice=0, different=0, cut_short=0
    )  # fmt: skip
    assert count.is_good


def test_an_acknowledged_item_without_a_commit_is_lost(write, tmp_path: Path) -> None:
    count = compare(look_into(write(committed(0, 2))), notes(tmp_path, "items 4"))
    assert (count.lost, count.is_good) == (2, False)


def test_an_item_that_was_never_acknowledged_is_not_lost(write, tmp_path: Path) -> None:
    count = compare(look_into(write(committed(0, 1))), notes(tmp_path, "items 2"))
    assert (count.lost, count.is_good) == (0, True)


def test_a_second_commit_of_an_item_is_counted(write, tmp_path: Path) -> None:
    world = committed(0, 1, 2, 3)
    # No coordinator writes this; a forged record stands for one that would.
    again = decode_record(world.log[4])
    world.log.append(encode_record(Record(world.now, "CommitTasks", "", "", "", again.events)))
    count = compare(look_into(write(world)), notes(tmp_path, "items 4"))
    assert (count.twice, count.is_good) == (1, False)


@pytest.mark.parametrize("line", ["result 1 11", "result 3 30"])
def test_a_result_that_the_log_does_not_hold_is_counted(write, tmp_path: Path, line: str) -> None:
    diary = notes(tmp_path, "items 2", line)
    count = compare(look_into(write(committed(0, 1))), diary)
    assert (count.different, count.is_good) == (1, False)


def test_attempts_that_died_with_their_process_are_counted(write, tmp_path: Path) -> None:
    world = committed(0)
    (lease,) = world.grant("1", 1)
    world.start("1", 1, lease)
    world.grant("1", 2)
    world.open()
    count = compare(look_into(write(world)), notes(tmp_path, "items 1"))
    assert (count.cut_short, count.is_good) == (2, True)


def test_the_last_count_of_items_is_the_largest(tmp_path: Path) -> None:
    assert read_notes(notes(tmp_path, "items 5", "items 3", "result 2 20")) == (5, [(2, 20)])


def test_a_child_that_starts_as_the_demo_is_stopped_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would make anew the folder that the demo takes with it."""
    begun: list[subprocess.Popen[str]] = []

    def start(data: Path, notes: Path) -> "subprocess.Popen[str]":
        begun.append(subprocess.Popen(["sleep", "600"], text=True))
        signal.raise_signal(signal.SIGINT)
        return begun[-1]

    monkeypatch.setattr(crash, "_start", start)
    with pytest.raises(KeyboardInterrupt), crash._running(tmp_path, tmp_path):
        pytest.fail("it was told to stop")
    assert begun[0].returncode == -signal.SIGKILL

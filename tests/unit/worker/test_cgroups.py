"""Control groups by their files: which is ours to divide, and what became of a part of it.

A folder stands in for the kernel here. What the kernel itself does is shown in tests/e2e.
"""

import os
from pathlib import Path

import pytest

from holdfast.worker.cgroups import MemoryGroups, delegated, how_memory_is_capped

MOUNTS = "30 23 0:26 {root} {place} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"


class Machine:
    """The files that tell a process where it is, and the group it is in."""

    def __init__(self, folder: Path, *, root: str = "/", inside: str = "/work.slice") -> None:
        self.own, self.mounts = folder / "own", folder / "mounts"
        self.own.write_text(f"4:memory:/old\n0::{inside}\n")
        place = folder / "fs"
        self.mounts.write_text(MOUNTS.format(root=root, place=place))
        self.group = place / Path(inside).relative_to(root)
        self.group.mkdir(parents=True)
        self.write(controllers="cpu memory", subtree_control="", procs=str(os.getpid()))

    def write(self, **files: str) -> None:
        for name, content in files.items():
            (self.group / f"cgroup.{name}").write_text(f"{content}\n")

    def found(self) -> Path | None:
        return delegated(self.own, self.mounts)


def test_a_group_this_process_is_alone_in_is_made_ready_to_be_divided(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.found() == machine.group
    below = machine.group / "holdfast-worker" / "cgroup.procs"
    assert below.read_text() == str(os.getpid())
    assert (machine.group / "cgroup.subtree_control").read_text() == "+memory"


def test_a_group_that_somebody_made_ready_is_taken_as_it_is(tmp_path: Path) -> None:
    machine = Machine(tmp_path, root="/work.slice", inside="/work.slice/ours")
    machine.write(subtree_control="memory", procs="")
    assert machine.found() == machine.group == tmp_path / "fs" / "ours"
    assert sorted(path.name for path in machine.group.iterdir()) == [
        "cgroup.controllers", "cgroup.procs", "cgroup.subtree_control",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "files",
    [{"controllers": "cpu"}, {"procs": f"{os.getpid()}\n1"}],
    ids=["memory is not counted here", "others are in it too"],
)
def test_a_group_that_is_not_ours_to_divide_is_left_alone(
    tmp_path: Path, files: dict[str, str]
) -> None:
    machine = Machine(tmp_path)
    machine.write(**files)
    assert machine.found() is None
    assert (machine.group / "cgroup.subtree_control").read_text() == "\n"


def test_a_machine_without_such_groups_has_none(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.mounts.write_text("30 23 0:26 / /sys/fs/cgroup rw - cgroup cgroup rw,memory\n")
    assert machine.found() is None
    assert delegated(tmp_path / "nothing", machine.mounts) is None
    assert how_memory_is_capped(None) == "rlimit"
    assert how_memory_is_capped(tmp_path) == "cgroup"


def test_a_part_has_its_cap_before_anybody_enters_and_tells_whether_it_struck(
    tmp_path: Path,
) -> None:
    groups = MemoryGroups(tmp_path)
    group = groups.open("attempt-7", 12_345)
    folder = tmp_path / "attempt-7"
    assert (folder / "memory.max").read_text() == "12345"
    assert (folder / "memory.oom.group").read_text() == "1"
    group.enter()
    assert (folder / "cgroup.procs").read_text() == "0"
    assert not group.was_struck()
    (folder / "memory.events").write_text("low 0\nmax 4\noom 1\noom_kill 0\n")
    assert not group.was_struck()
    (folder / "memory.events").write_text("low 0\nmax 4\noom 1\noom_kill 2\n")
    assert group.was_struck()
    groups.close(group)
    assert (folder / "cgroup.kill").read_text() == "1"


def test_a_part_goes_when_the_last_one_in_it_has_gone(tmp_path: Path) -> None:
    groups = MemoryGroups(tmp_path)
    groups.close(groups.open("attempt-7", 1))
    folder = tmp_path / "attempt-7"
    assert folder.exists(), "its files are still there, as processes would be"
    for path in folder.iterdir():
        path.unlink()
    groups.open("attempt-8", 1)
    assert not folder.exists()


def test_a_part_that_cannot_be_made_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="gone"):
        MemoryGroups(tmp_path / "gone").open("attempt-7", 1)
    assert list(tmp_path.iterdir()) == []

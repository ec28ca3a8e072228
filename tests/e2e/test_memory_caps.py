"""A command that takes more memory than it asked for is ended, and told apart from one that was
killed by hand."""

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.wire.bodies import Command
from holdfast.wire.exchange import Done, Failed, Item, Run
from holdfast.worker.commands import CommandExecutor
from holdfast.worker.surroundings import Surroundings

PATIENCE_S = 60
CAP = 64 << 20
TAKES_TOO_MUCH = "kept = bytearray(1 << 30); print(len(kept))"
KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
# What the kernel would write down for a command that it killed for its memory.
STRUCK = (
    "import os, sys; open(sys.argv[1], 'w').write('oom 1\\noom_kill 1\\n'); "
    "os.kill(os.getpid(), 9)"
)

HIERARCHY = Path("/sys/fs/cgroup")


def why_there_is_no_group() -> str:
    """What this machine lacks; empty where a control group can be made and counts memory."""
    for place in (HIERARCHY, HIERARCHY / "unified"):
        control = place / "cgroup.subtree_control"
        if not control.exists():
            continue
        if "memory" not in control.read_text().split():
            return f"{place} does not count memory for its parts"
        return "" if os.access(place, os.W_OK) else f"{place} is not ours to write"
    return "no control groups of version 2 are mounted"


class Crew:
    """An executor of commands whose memory is counted in parts of `cgroup`."""

    def __init__(self, scratch: Path, cgroup: Path | None) -> None:
        self._bell = threading.Event()
        around = Surroundings(scratch, WorkerId("w"), environment=dict(os.environ))
        self.executor = CommandExecutor(
            1, self._bell.set, lambda: time.monotonic_ns() // 1_000_000, around, cgroup=cgroup
        )
        self._leases = itertools.count(1)

    def ended(self, code: str, *arguments: str, memory: int = CAP) -> Done | Failed:
        """Run it to its end."""
        payload = msgspec.msgpack.encode(Command(argv=[sys.executable, "-c", code, *arguments]))
        items = (Item(Index(0), LeaseId(next(self._leases)), 1, payload),)
        run = Run(JobId("j"), 0, "command", "x", 0, 0, False, 1, items, "", memory)
        self.executor.assign(run)
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            harvest = self.executor.harvest()
            if harvest.done or harvest.failed:
                (end,) = (*harvest.done, *harvest.failed)
                return end
            assert time.monotonic() < give_up_at, "it did not end in time"
            self._bell.wait(0.02)
            self._bell.clear()


@pytest.fixture
def hire(tmp_path: Path) -> Iterator[Callable[[Path | None], Crew]]:
    crews: list[Crew] = []

    def hire(cgroup: Path | None) -> Crew:
        crews.append(Crew(tmp_path / "scratch", cgroup))
        return crews[-1]

    yield hire
    for crew in crews:
        crew.executor.close(0)


@pytest.fixture
def real_group() -> Iterator[Path]:
    lacks = why_there_is_no_group()
    if lacks:
        pytest.skip(f"a real control group: {lacks}")
    place = next(p for p in (HIERARCHY, HIERARCHY / "unified") if (p / "cgroup.procs").exists())
    folder = place / f"holdfast-test-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "cgroup.subtree_control").write_text("+memory")
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()


def test_a_command_in_a_real_control_group_is_ended_for_its_memory_and_that_is_told(
    real_group: Path, hire: Callable[[Path | None], Crew]
) -> None:
    crew = hire(real_group)
    end = crew.ended(TAKES_TOO_MUCH)
    assert isinstance(end, Failed)
    assert (end.reason, end.exit_code) == ("failed", -9)
    assert f"took more memory than the {CAP} bytes" in end.error
    killed = crew.ended(KILLED)
    assert isinstance(killed, Failed)
    assert (killed.reason, killed.exit_code) == ("worker_lost", -9)
    # Reserved and not used is not taken: a cap on addresses would strike here.
    reserves = "import mmap; mmap.mmap(-1, 1 << 30); print('fine')"
    assert isinstance(crew.ended(reserves), Done)
    assert list(real_group.glob("attempt-*")) == []


def test_a_kill_for_memory_is_told_from_a_kill_by_hand(
    tmp_path: Path, hire: Callable[[Path | None], Crew]
) -> None:
    """By a folder that stands in for a group: what the kernel writes down is what counts."""
    group = tmp_path / "group"
    group.mkdir()
    crew = hire(group)
    struck = crew.ended(STRUCK, str(group / "attempt-1" / "memory.events"))
    assert isinstance(struck, Failed)
    assert (struck.reason, struck.exit_code) == ("failed", -9)
    assert f"took more memory than the {CAP} bytes" in struck.error
    killed = crew.ended(KILLED)
    assert isinstance(killed, Failed)
    assert (killed.reason, killed.exit_code) == ("worker_lost", -9)
    assert "took more memory" not in killed.error
    for lease in (1, 2):
        part = group / f"attempt-{lease}"
        assert (part / "memory.max").read_text() == str(CAP)
        assert (part / "cgroup.procs").read_text() == "0"
    # Nobody asked for a bound: it has no part of its own.
    assert isinstance(crew.ended("pass", memory=0), Done)
    assert not (group / "attempt-3").exists()


def test_where_no_part_can_be_made_addresses_are_bounded_instead(
    tmp_path: Path, hire: Callable[[Path | None], Crew]
) -> None:
    end = hire(tmp_path / "not there").ended(TAKES_TOO_MUCH, memory=256 << 20)
    assert isinstance(end, Failed)
    assert "ran out of memory" in end.error

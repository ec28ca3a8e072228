"""Whatever command a message names can be typed as it stands, and then does what was promised."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from holdfast.core.freeze import freeze
from holdfast.testing.world import World
from holdfast.wal import FileLog, RealDisk, write_snapshot

NAMED = re.compile(r"`holdfast ([^`]+)`|Its tasks: holdfast (.+)")


@pytest.fixture
def spaced(original: Path, tmp_path: Path) -> Path:
    """The story in a folder whose name a shell would take apart."""
    return Path(shutil.copytree(original, tmp_path / "my state; it's here"))


def named_in(text: str) -> list[str]:
    (command,) = [one or other for one, other in NAMED.findall(text)]
    return shlex.split(command)


@pytest.mark.parametrize(
    "arguments",
    [
        ("job", "show", "99"),
        ("job", "show", "1"),
        ("job", "list", "--state", "killed"),
        ("job", "list", "--at", "1"),
        ("task", "show", "1/99"),
        ("task", "list", "1", "--state", "killed"),
    ],
)
def test_a_named_command_finds_the_same_folder(
    run, spaced: Path, arguments: tuple[str, ...]
) -> None:
    told = run(*arguments, "--data", spaced)
    next_one = run(*named_in(told.out + told.err))
    assert next_one.code == 0, next_one.err
    assert next_one.out


def test_a_damaged_log_names_commands_for_its_own_folder(run, spaced: Path) -> None:
    segment = next((spaced / "wal").glob("*.seg"))
    content = bytearray(segment.read_bytes())
    content[len(content.rstrip(b"\0")) // 2 + 2_048] ^= 1
    segment.write_bytes(content)
    verdict = run(*named_in(run("job", "list", "--data", spaced).err))
    assert (verdict.code, "DAMAGED" in verdict.out) == (1, True)
    looked, salvaged = [one or other for one, other in NAMED.findall(verdict.err)]
    assert run(*shlex.split(looked)).code == 0
    assert salvaged.startswith("log salvage")
    assert run(*shlex.split(salvaged)).code == 0


def test_a_dump_of_dropped_history_names_where_it_begins(run, tmp_path: Path) -> None:
    world = World()
    while len(world.log) < 200:
        world.submit("", 1)
    folder = tmp_path / "my state"
    log = FileLog.open(folder, segment_bytes=16 * 1024)
    for first in range(0, 200, 25):
        log.append(world.log[first : first + 25], at=world.now, wall=world.now)
        log.sync()
    claim = world.fingerprint().encode()
    write_snapshot(RealDisk(), folder, 200, log.head, log.log_id, [freeze(world.state)], claim)
    oldest = log.drop_segments(200)
    log.close()
    told = run("log", "dump", folder, "--from", 1)
    assert (told.code, told.out) == (1, "")
    next_one = run(*named_in(told.err))
    assert next_one.code == 0
    assert json.loads(next_one.out.splitlines()[0])["position"] == oldest > 1


def test_a_job_without_tasks_is_said_to_have_none(run, write) -> None:
    world = World()
    world.submit("", 0, sealed=False)
    folder = write(world)
    for arguments in (("show", "1"), ("show", "1/0"), ("list", "1")):
        told = run("task", *arguments, "--data", folder)
        assert "job 1 has no tasks" in told.err
        assert told.code == (0 if arguments[0] == "list" else 4)
        assert run(*named_in(told.err)).code == 0


def test_a_damaged_snapshot_says_how_to_make_another(run, folder: Path) -> None:
    (folder / "snapshots").mkdir()
    (folder / "snapshots" / f"{20:020}.snap").write_bytes(b"no snapshot")
    told = run("log", "verify", folder)
    assert told.code == 1
    assert f"`holdfast log snapshot {folder}`" in told.err
    # The log itself is whole, and says so.
    assert f"`holdfast job list --data {folder} --at 20`" in told.err


def test_a_group_alone_shows_what_there_is_to_type(run) -> None:
    for group in ((), ("job",), ("log",)):
        told = run(*group)
        assert (told.code, told.out) == (2, "")
        assert told.err.startswith(f"Usage: {' '.join(('holdfast', *group))} [OPTIONS] COMMAND")
        assert "See `" not in told.err

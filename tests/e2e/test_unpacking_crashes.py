"""A process that is killed while it unpacks leaves nothing that looks whole, and no way blocked."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from holdfast.testing.archives import archive, file, folder, program
from holdfast.worker.unpacking import sweep, unpack

UNPACK = """
import os, signal, sys
from pathlib import Path
from holdfast.worker.unpacking import unpack

left = int(sys.argv[3])

def reach(point):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

with open(sys.argv[1], "rb") as archive:
    unpack(archive, Path(sys.argv[2]), reach=reach)
"""

ENTRIES = (folder("d"), file("d/a", b"a" * 100_000), file("d/b"), folder("e"), program("f"))


def whole(target: Path) -> bool:
    return (
        sorted(os.listdir(target)) == ["d", "e", "f"]
        and (target / "d" / "a").read_bytes() == b"a" * 100_000
        and (target / "d" / "b").read_bytes() == b"x"
        and os.listdir(target / "e") == []
    )


def test_killed_at_any_moment(tmp_path: Path):
    source = tmp_path / "archive"
    source.write_bytes(archive(*ENTRIES))
    place = tmp_path / "cache"
    place.mkdir()
    target = place / "target"
    points: list[str] = []
    with source.open("rb") as content:
        unpack(content, place / "rehearsal", reach=points.append)
    killed = []
    for moment, point in enumerate(points):
        done = subprocess.run(
            [sys.executable, "-c", UNPACK, source, target, str(moment)], check=False
        )
        assert done.returncode == -signal.SIGKILL
        killed.append(point)
        if point == "renamed":
            assert whole(target)
            continue
        assert not target.exists()
        left = [name for name in os.listdir(place) if name != "rehearsal"]
        assert left
        assert all(name.startswith(".target.unpacking-") for name in left)
        if moment % 2:
            # Whether or not it is cleaned up first, the next one gets through.
            sweep(target)
            assert os.listdir(place) == ["rehearsal"]
    assert killed[-1] == "renamed"
    assert len(killed) > 10
    sweep(target)
    assert sorted(os.listdir(place)) == ["rehearsal", "target"]

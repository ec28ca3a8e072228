"""A disk that fails in the middle of work: no acknowledgement after that, and all is well after a
repair."""

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from holdfast.testing.asking_jobs import Asker, broken_promises
from holdfast.testing.blocks import NEEDS, BadDisk
from holdfast.testing.loopback import ServerProcess
from holdfast.testing.patience import until

pytestmark = pytest.mark.needs(*NEEDS)

SHARE = 4
SOAK = 100
PROMISES_MOST = 30
PATIENCE_S = 120


def fail_once(server: ServerProcess, disk: BadDisk, name: str, wanted: int) -> tuple[Asker, float]:
    """What was promised until the disk failed, and how long the server outlived that."""
    server.start()
    with Asker(server, name) as asker:
        until(lambda: len(asker.promised) >= wanted)
        failed_at = time.monotonic()
        disk.fail()
        until(server.has_died)
        outlived_s = time.monotonic() - failed_at
    server.kill()
    disk.unmount()
    disk.heal()
    disk.mount()
    return asker, outlived_s


def fail_again_and_again(tmp_path: Path, dice: Random, times: int) -> dict[str, object]:
    """A served folder on a disk that fails, is repaired and fails again; what it came to."""
    promised: dict[str, str] = {}
    slowest_s = 0.0
    with BadDisk(tmp_path) as disk:
        (disk.place / "data").mkdir()
        (tmp_path / "data").symlink_to(disk.place / "data")
        with ServerProcess(tmp_path) as server:
            server.kill()
            for number in range(times):
                wanted = dice.randrange(1, PROMISES_MOST)
                asker, outlived_s = fail_once(server, disk, f"round {number}", wanted)
                promised |= asker.promised
                slowest_s = max(slowest_s, outlived_s)
            server.start()
            assert broken_promises(server, promised) == []
    return {"failures": times, "promises": len(promised), "slowest exit s": round(slowest_s, 2)}


@pytest.mark.slow
def test_a_server_ends_when_its_disk_fails_and_has_kept_every_promise(
    tmp_path: Path, dice: Random
) -> None:
    fail_again_and_again(tmp_path, dice, SHARE)


@pytest.mark.soak
def test_a_server_whose_disk_fails_a_hundred_times_has_kept_every_promise(
    tmp_path: Path, dice: Random, record_testsuite_property: Callable[[str, object], None]
) -> None:
    record_testsuite_property("failing disk", fail_again_and_again(tmp_path, dice, SOAK))


PROGRAM = """
    import sys
    import holdfast
    from holdfast.errors import LogFailed
    from holdfast.testing import chores

    hf = holdfast.open(sys.argv[1], workers=1)
    job = hf.submit(chores.square, 3, delay="1h")
    promised = 1
    try:
        while True:
            hf.submit(chores.square, promised, delay="1h")
            promised += 1
            if promised == 20:
                open(sys.argv[2], "w").close()
    except LogFailed as error:
        assert "\\n" not in str(error), error
    for asked in (job.result, job.cancel, lambda: hf.submit(chores.square, 1)):
        try:
            asked()
        except LogFailed:
            continue
        raise AssertionError(f"{asked} was answered")
    hf.close()
    print(promised)
"""
AFTER = """
    import sys
    import holdfast

    with holdfast.open(sys.argv[1]) as hf:
        print(all(hf.job(n).state == "PENDING" for n in range(1, int(sys.argv[2]) + 1)))
"""


def run(tmp_path: Path, program: str, *arguments: object) -> str:
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_program_whose_disk_fails_is_told_at_every_call_and_opens_it_again_after(
    tmp_path: Path,
) -> None:
    with BadDisk(tmp_path) as disk:
        state = disk.place / "state"
        promised = int(run(tmp_path, PROGRAM, state, tmp_path / "errors"))
        assert promised >= 20
        disk.unmount()
        disk.heal()
        disk.mount()
        assert run(tmp_path, AFTER, state, promised) == "True\n"

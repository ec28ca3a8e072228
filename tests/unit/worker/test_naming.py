"""A worker's name on its machine belongs to one living process."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.worker.naming import NameLock, NameTaken

HOLD = (
    "import sys; from pathlib import Path; from holdfast.worker.naming import NameLock\n"
    "lock = NameLock(Path(sys.argv[1])); print(lock.identity, flush=True); sys.stdin.read()"
)


def test_a_name_is_held_by_one_and_free_when_it_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "w.lock"
    first = NameLock(path)
    with pytest.raises(NameTaken, match="is held by process"):
        NameLock(path, patience_s=0)
    first.close()
    second = NameLock(path, patience_s=0)
    assert second.identity == first.identity
    second.close()


def test_two_names_are_two_locks(tmp_path: Path) -> None:
    one, other = NameLock(tmp_path / "a"), NameLock(tmp_path / "b")
    assert one.identity != other.identity
    one.close()
    other.close()


@pytest.mark.slow
def test_whoever_takes_it_proves_that_the_former_holder_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "w.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        identity = holder.stdout.readline().decode().strip()
        with pytest.raises(NameTaken, match=str(holder.pid)):
            NameLock(path, patience_s=0)
        holder.kill()
        holder.wait()
        lock = NameLock(path)
        assert lock.identity == identity
        lock.close()

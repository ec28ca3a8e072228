"""A folder becomes the same archive wherever it is, and what cannot be in one is told by name."""

import io
import os
import stat
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.client.bundles import pack, packed
from holdfast.client.errors import Refused
from holdfast.wire.archives import LIMITS
from holdfast.wire.contents import is_digest, new_digest
from holdfast.worker.unpacking import unpack


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "__init__.py").write_text("answer = 42\n")
    (folder / "main.py").write_text("import package\n")
    run = folder / "run.sh"
    run.write_text("#!/bin/sh\n")
    run.chmod(0o755)
    return folder


def names_in(folder: Path, tmp_path: Path) -> set[str]:
    raw = io.BytesIO()
    pack(folder, raw)
    raw.seek(0)
    target = tmp_path / f"out-{os.urandom(4).hex()}"
    unpack(raw, target)
    return {str(path.relative_to(target)) for path in target.rglob("*")}


def digest_of(folder: Path) -> str:
    return pack(folder, io.BytesIO()).digest


def test_the_digest_is_that_of_the_bytes(code: Path):
    with packed(code) as (told, archive):
        content = archive.read()
    digest = new_digest()
    digest.update(content)
    assert told.digest == digest.hexdigest()
    assert told.archive_bytes == len(content)
    assert is_digest(told.digest)
    assert told.entries == 4


def test_times_owners_and_the_order_of_making_do_not_count(code: Path, tmp_path: Path):
    again = tmp_path / "again"
    again.mkdir()
    for name in ("run.sh", "main.py"):
        (again / name).write_bytes((code / name).read_bytes())
        os.utime(again / name, (1, 1))
    (again / "package").mkdir(mode=0o700)
    (again / "package" / "__init__.py").write_text("answer = 42\n")
    (again / "run.sh").chmod(0o4711)
    assert digest_of(again) == digest_of(code)


def test_contents_names_and_the_right_to_execute_do(code: Path):
    seen = {digest_of(code)}
    (code / "main.py").write_text("import package \n")
    seen.add(digest_of(code))
    (code / "main.py").rename(code / "main2.py")
    seen.add(digest_of(code))
    (code / "main2.py").chmod(0o755)
    seen.add(digest_of(code))
    (code / "empty").mkdir()
    seen.add(digest_of(code))
    assert len(seen) == 5


def test_what_is_no_code_is_left_out(code: Path, tmp_path: Path):
    for name in (".git", "__pycache__", ".venv", "package/__pycache__"):
        (code / name).mkdir()
        (code / name / "x").write_text("")
    (code / "package" / "old.pyc").write_text("")
    assert names_in(code, tmp_path) == {"main.py", "run.sh", "package", "package/__init__.py"}


def test_globs_leave_out_more(code: Path, tmp_path: Path):
    (code / ".holdfastignore").write_text("# inputs\n\n*.csv\n/data/raw\nlogs/\npackage/t*\n")
    for name in ("data/raw", "data/kept/raw", "logs", "package/tests"):
        (code / name).mkdir(parents=True)
    for name in ("a.csv", "package/b.csv", "data/raw/x", "data/kept/logs", "logs/x", "package/u"):
        (code / name).write_text("")
    found = names_in(code, tmp_path)
    left = found - {"main.py", "run.sh", "package", "package/__init__.py"}
    assert left == {"data", "data/kept", "data/kept/raw", "data/kept/logs", "package/u"}


@pytest.mark.parametrize("line", ["!kept.csv", "data/**"])
def test_a_glob_that_would_be_misunderstood_is_refused(code: Path, line: str):
    (code / ".holdfastignore").write_text(line)
    with pytest.raises(Refused, match="plain globs"):
        pack(code, io.BytesIO())


@pytest.mark.parametrize("target", ["main.py", "/etc/passwd", "nowhere", "package", ".."])
def test_a_link_is_refused_by_name_wherever_it_leads(code: Path, target: str):
    os.symlink(target, code / "package" / "link")
    with pytest.raises(Refused, match="'package/link' is a link"):
        pack(code, io.BytesIO())


def test_a_link_that_is_ignored_is_no_trouble(code: Path, tmp_path: Path):
    os.symlink("/etc/passwd", code / "link")
    (code / ".holdfastignore").write_text("link\n")
    assert "link" not in names_in(code, tmp_path)


def test_the_folder_itself_may_be_named_through_a_link(code: Path, tmp_path: Path):
    os.symlink("code", tmp_path / "current")
    assert digest_of(tmp_path / "current") == digest_of(code)


def test_a_pipe_is_refused_and_not_waited_for(code: Path):
    os.mkfifo(code / "pipe")
    with pytest.raises(Refused, match="'pipe' is neither"):
        pack(code, io.BytesIO())


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a\nb", "cannot be seen"),
        ("a\\b", "backslash"),
        ("exe\u202etxt", "cannot be seen"),
    ],
)
def test_a_name_that_workers_would_refuse_is_refused_here(code: Path, name: str, told: str):
    (code / name).write_text("")
    with pytest.raises(Refused, match=told):
        pack(code, io.BytesIO())


def test_a_name_that_is_no_text_is_refused(code: Path):
    with open(os.fsencode(code) + b"/caf\xe9", "wb"):
        pass
    with pytest.raises(Refused, match="cannot be in a bundle"):
        pack(code, io.BytesIO())


@pytest.mark.parametrize("pair", [("README", "readme"), ("caf\u00e9", "cafe\u0301")])
def test_names_that_are_one_elsewhere_are_refused(code: Path, pair: tuple[str, str]):
    for name in pair:
        (code / name).write_text("")
    with pytest.raises(Refused, match="one file where"):
        pack(code, io.BytesIO())


def test_every_bound_is_told_with_a_remedy(code: Path):
    (code / "big").write_bytes(os.urandom(100_000))
    for tight, told in (
        (structs.replace(LIMITS, entries=3), "more than 3 files"),
        (structs.replace(LIMITS, content_bytes=50_000), "'big'"),
        (structs.replace(LIMITS, archive_bytes=50_000), "when packed"),
    ):
        with pytest.raises(Refused, match=told) as refused:
            pack(code, io.BytesIO(), tight)
        assert refused.value.code == "too_large"
        assert ".holdfastignore" in str(refused.value)


def test_what_a_worker_would_take_for_a_trap_is_refused_here(code: Path):
    (code / "zeros").write_bytes(bytes(1_000_000))
    with pytest.raises(Refused, match="trap"):
        pack(code, io.BytesIO(), structs.replace(LIMITS, free_bytes=1_000))


def test_an_empty_folder_and_no_folder_are_refused(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(Refused, match="nothing"):
        pack(tmp_path / "empty", io.BytesIO())
    with pytest.raises(Refused, match="no folder"):
        pack(tmp_path / "absent", io.BytesIO())


def test_a_file_that_grows_while_it_is_read_is_noticed(code: Path):
    """What is in the archive must be what was there at one moment, as far as can be told."""
    file = code / "package" / "__init__.py"

    class Growing(io.BytesIO):
        def write(self, content: bytes) -> int:  # type: ignore[override]
            with open(file, "a") as more:
                more.write("#" * 70_000)
            return super().write(content)

    (code / "noise").write_bytes(os.urandom(200_000))
    file.write_bytes(os.urandom(200_000))
    with pytest.raises(Refused, match="changed while"):
        pack(code, Growing())


def test_the_right_to_execute_survives_and_no_other(code: Path, tmp_path: Path):
    (code / "run.sh").chmod(0o6755)
    raw = io.BytesIO()
    pack(code, raw)
    raw.seek(0)
    unpack(raw, tmp_path / "out")
    assert stat.S_IMODE((tmp_path / "out" / "run.sh").stat().st_mode) == 0o555
    assert stat.S_IMODE((tmp_path / "out" / "main.py").stat().st_mode) == 0o444

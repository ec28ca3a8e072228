"""Files that appear with the commit of their task: written beside the target, never in it."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.owed import FILE
from holdfast.wire.delivery import Origin
from holdfast.worker.leftovers import Journal
from holdfast.worker.places import own_place
from holdfast.worker.staging import (
    CannotStage,
    Outputs,
    OutsideOutputs,
    Staging,
    decode_staged,
    discard_entries,
)

ORIGIN = Origin("log", JobId("7"), Index(3), LeaseId(41))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def staging(home: Path, outputs: tuple[str, ...] = ()) -> Staging:
    return Staging(ORIGIN, Outputs(outputs), Journal(home.parent / "staged"), str(home))


def test_the_target_is_untouched_and_the_entry_says_where_the_file_waits(home: Path) -> None:
    (home / "report.txt").write_text("old")
    files = staging(home)
    with files.file("report.txt") as file:
        file.write("new")
    assert (home / "report.txt").read_text() == "old"
    [entry] = files.entries()
    assert (entry.kind, entry.place, entry.key) == (FILE, own_place(), str(home / "report.txt"))
    staged = decode_staged(entry.body)
    assert Path(staged.temporary).read_text() == "new"
    assert Path(staged.temporary).parent == home
    assert (staged.size, staged.exclusive) == (3, False)


def test_folders_are_made_and_several_files_keep_their_order(home: Path) -> None:
    files = staging(home)
    for name in ("b/two.bin", "a/one.bin"):
        with files.file(name, "wb") as file:
            file.write(b"x")
    assert [entry.key for entry in files.entries()] == [
        str(home / "b/two.bin"), str(home / "a/one.bin"),
    ]  # fmt: skip


def test_a_block_left_by_an_exception_leaves_nothing(home: Path) -> None:
    files = staging(home)

    def write_half() -> None:
        with files.file("x") as file:
            file.write("half")
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        write_half()
    assert files.entries() == []
    assert os.listdir(home) == []
    with files.file("x") as file:
        file.write("again")
    assert len(files.entries()) == 1


def test_a_file_that_its_writer_closed_counts_as_one_that_was_left(home: Path) -> None:
    files = staging(home)
    with files.file("x") as file:
        file.write("all of it")
        file.close()
    assert decode_staged(files.entries()[0].body).size == 9


@pytest.mark.parametrize("mode", ["a", "ab", "a+", "r", "r+", "rw", "wx", "wbt", "", "wz"])
def test_only_new_files_are_staged(home: Path, mode: str) -> None:
    with pytest.raises(CannotStage, match="cannot be staged"), staging(home).file("x", mode):
        pass
    assert os.listdir(home) == []


def test_a_path_is_staged_once_by_a_task_also_under_another_spelling(home: Path) -> None:
    files = staging(home)
    (home / "link").symlink_to(home / "x")
    with files.file("x"), pytest.raises(CannotStage, match="already"), files.file("./x"):
        pass
    with pytest.raises(CannotStage, match="already"), files.file("link"):
        pass


def test_what_is_replaced_hands_on_its_permissions(home: Path) -> None:
    (home / "secret").write_text("old")
    (home / "secret").chmod(0o640)
    files = staging(home)
    with files.file("secret") as file:
        file.write("new")
    staged = decode_staged(files.entries()[0].body)
    assert stat.S_IMODE(os.stat(staged.temporary).st_mode) == 0o640


def test_a_link_is_followed_to_the_file_it_names(home: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (home / "link").symlink_to(tmp_path / "far" / "real")
    files = staging(home)
    with files.file("link") as file:
        file.write("x")
    assert files.entries()[0].key == str(tmp_path / "far" / "real")


def test_outside_the_folders_of_the_worker_nothing_is_staged(home: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    files = staging(home, (str(home / "out"),))
    (home / "out").mkdir()
    (home / "out" / "trap").symlink_to(tmp_path / "other")
    for path in ("x", "out", "../other/x", "out/../x", "out/trap/x", "/etc/x", str(home / "outer")):
        with pytest.raises(OutsideOutputs, match="may write to"), files.file(path):
            pass
    with files.file("out/deep/x") as file:
        file.write("well")
    assert os.listdir(tmp_path / "other") == []


@pytest.mark.parametrize("what", ["folder", "pipe"])
def test_what_is_no_ordinary_file_is_not_replaced(home: Path, what: str) -> None:
    (home / "x").mkdir() if what == "folder" else os.mkfifo(home / "x")
    with pytest.raises(CannotStage, match="no ordinary file"), staging(home).file("x"):
        pass


def test_a_file_that_must_be_new_is_refused_where_there_is_one(home: Path) -> None:
    files = staging(home)
    (home / "x").write_text("here")
    with pytest.raises(CannotStage, match="there already"), files.file("x", "x"):
        pass
    with files.file("y", "xb") as file:
        file.write(b"1")
    assert decode_staged(files.entries()[0].body).exclusive


def test_the_longest_names_are_staged(home: Path) -> None:
    name = "ü" * 127
    files = staging(home)
    with files.file(name) as file:
        file.write("x")
    assert files.entries()[0].key == str(home / name)


def test_a_folder_that_cannot_be_made_says_so(home: Path) -> None:
    (home / "x").write_text("a file")
    with pytest.raises(CannotStage, match="folder"), staging(home).file("x/y"):
        pass


def test_an_unknown_argument_is_an_error_of_the_call(home: Path) -> None:
    with pytest.raises(TypeError, match="compression"), staging(home).file("x", compression=9):
        pass


def test_an_attempt_that_does_not_commit_leaves_nothing(home: Path) -> None:
    files = staging(home)
    with files.file("x") as file:
        file.write("x")

    def lose() -> None:
        with files.file("open"):
            assert files.unfinished == [str(home / "open")]
            files.discard()

    with pytest.raises(FileNotFoundError):
        lose()
    assert os.listdir(home) == []
    assert files.entries() == []


def test_a_name_that_is_no_text_is_refused(home: Path) -> None:
    with pytest.raises(CannotStage, match="no text"), staging(home).file(os.fsdecode(b"\xff")):
        pass


def test_a_refused_commit_takes_its_files_along(home: Path) -> None:
    files = staging(home)
    with files.file("x") as file:
        file.write("x")
    discard_entries(tuple(files.entries()))
    assert os.listdir(home) == []

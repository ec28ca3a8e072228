"""Files named by their digests: whole or not there, and whoever reads one is told the truth."""

import os
from pathlib import Path

import pytest

from holdfast.core.owed import Stored
from holdfast.wire.contents import ARRIVING, Contents, Unwelcome, new_digest
from holdfast.wire.errors import ResultLost

CONTENT = bytes(range(256)) * 8_000
"""More than is read at once."""


@pytest.fixture
def contents(tmp_path: Path) -> Contents:
    return Contents(tmp_path / "results", is_spread=True)


def file_of(contents: Contents, stored: Stored) -> Path:
    return contents.path_of(stored.digest.hex())


def test_what_was_kept_is_read_again_by_whoever_knows_its_digest(contents: Contents):
    stored = contents.keep(CONTENT)
    assert stored.size == len(CONTENT)
    digest = new_digest()
    digest.update(CONTENT)
    assert stored.digest == digest.digest()
    again = Contents(contents.folder, is_spread=True)
    assert again.read(stored) == CONTENT
    again.check(stored)


def test_files_are_spread_over_folders_by_their_first_digits(contents: Contents):
    stored = contents.keep(b"x")
    name = stored.digest.hex()
    assert file_of(contents, stored) == contents.folder / name[:2] / name[2:]
    assert os.listdir(contents.folder) == [name[:2]]


def test_the_same_content_is_one_file_and_is_young_again(contents: Contents):
    path = file_of(contents, contents.keep(CONTENT))
    os.utime(path, (1, 1))
    written = path.stat().st_ino
    assert file_of(contents, contents.keep(CONTENT)) == path
    assert path.stat().st_ino == written, "what is there is not written again"
    assert path.stat().st_mtime > 1


@pytest.mark.parametrize("harm", ["cut short", "changed", "longer"])
def test_what_is_damaged_is_mended_by_whoever_brings_it_again(contents: Contents, harm: str):
    stored = contents.keep(CONTENT)
    hurt(file_of(contents, stored), harm)
    assert contents.keep(CONTENT) == stored
    assert contents.read(stored) == CONTENT


def hurt(path: Path, harm: str) -> None:
    content = path.read_bytes()
    middle = len(content) // 2
    changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    path.write_bytes(
        {"cut short": content[:-1], "changed": changed, "longer": content + b"x"}[harm]
    )


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("cut short", "has 2,047,999 bytes, and had 2,048,000"),
        ("longer", "has 2,048,001 bytes, and had 2,048,000"),
        ("changed", "is damaged"),
    ],
)
def test_what_the_disk_has_changed_is_told_and_never_given_out(
    contents: Contents, harm: str, told: str
):
    stored = contents.keep(CONTENT)
    hurt(file_of(contents, stored), harm)
    for look in (contents.read, contents.check):
        with pytest.raises(ResultLost, match=told) as lost:
            look(stored)
        assert str(file_of(contents, stored)) in str(lost.value)


def test_what_is_missing_is_told_as_missing(contents: Contents):
    stored = contents.keep(CONTENT)
    file_of(contents, stored).unlink()
    with pytest.raises(ResultLost, match="is not there"):
        contents.read(stored)
    assert str(ResultLost("it is gone").of("3/1")) == "the result of task 3/1 is lost: it is gone"


def test_a_file_that_cannot_be_read_is_told_as_that(contents: Contents):
    stored = contents.keep(b"")
    path = file_of(contents, stored)
    path.unlink()
    path.mkdir()
    with pytest.raises(ResultLost, match="cannot be read"):
        contents.read(stored)


def test_whatever_goes_wrong_on_the_way_leaves_nothing(contents: Contents):
    with contents.arriving("0" * 64) as arrival:
        arrival.write(b"other")
        with pytest.raises(Unwelcome, match="the digest of what came"):
            arrival.seal()
    assert os.listdir(contents.folder) == []


def test_what_a_crash_left_half_way_is_swept(contents: Contents):
    stored = contents.keep(CONTENT)
    aside = contents.set_aside(contents.keep(b"going").digest.hex())
    assert aside is not None
    (contents.folder / f"{ARRIVING}{'0' * 64}-1-0").write_bytes(b"half")
    contents.sweep()
    assert not aside.exists()
    assert not list(contents.folder.glob(".*"))
    assert contents.read(stored) == CONTENT
    assert contents.set_aside("0" * 64) is None


def test_two_who_bring_at_once_do_not_meet(contents: Contents):
    other = Contents(contents.folder, is_spread=True)
    digest = contents.keep(b"x").digest.hex()
    with contents.arriving(digest) as one, other.arriving(digest) as two:
        for arrival in (one, two):
            arrival.write(b"x")
            arrival.seal()
        contents.place(one)
        other.place(two)
    assert contents.read(Stored(bytes.fromhex(digest), 1)) == b"x"


def test_the_bytes_are_on_the_disk_before_the_name_and_the_name_before_anybody_is_told(
    contents: Contents, monkeypatch: pytest.MonkeyPatch
):
    contents.folder.parent.mkdir(exist_ok=True)
    done: list[str] = []
    sync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        sync(descriptor)
        done.append(f"sync {os.path.basename(os.readlink(f'/proc/self/fd/{descriptor}'))[:9]}")

    def renamed(old: Path, new: Path) -> None:
        rename(old, new)
        done.append("rename")

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    stored = contents.keep(b"x")
    first = stored.digest.hex()[:2]
    assert done[:3] == ["sync .arriving", "rename", f"sync {first}"]
    assert set(done[3:]) == {"sync results", f"sync {contents.folder.parent.name[:9]}"}
    # Whoever brought it before may have died before its name was on the disk.
    done.clear()
    contents.keep(b"x")
    assert done == [f"sync {first}"]

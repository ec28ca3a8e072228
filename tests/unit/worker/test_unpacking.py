"""What comes out of an archive is a folder of files, or nothing at all."""

import io
import os
import stat
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.testing.archives import (
    Entry,
    Surroundings,
    archive,
    file,
    folder,
    program,
    sealed,
    stream,
)
from holdfast.wire.archives import LIMITS
from holdfast.worker.unpacking import BadBundle, remove_tree, sweep, unpack

GOOD = stream(folder("d"), file("d/x"), file("e", b"12345"))


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    return Surroundings(tmp_path)


def deep(levels: int) -> list[Entry]:
    return [folder("/".join(["d"] * depth)) for depth in range(1, levels + 1)]


def contents(top: Path) -> dict[str, str]:
    return {
        str(path.relative_to(top)): path.read_text() if path.is_file() else "folder"
        for path in sorted(top.rglob("*"))
    }


def remove(tree: Path) -> None:
    beside = os.open(tree.parent, os.O_RDONLY)
    remove_tree(tree.name, beside)
    os.close(beside)


def test_a_truncated_archive_is_refused_wherever_it_is_cut(around: Surroundings):
    whole = sealed(GOOD)
    for size in range(0, len(whole), 2):
        with pytest.raises(BadBundle):
            unpack(io.BytesIO(whole[:size]), around.target)
    assert around.changed() == set()


def test_a_flipped_bit_never_gives_another_folder(around: Surroundings):
    """Nothing with one gets past the digest. And still: it is found, or the same comes out."""
    whole = bytearray(sealed(GOOD))
    # Seven and eight share no factor, so every bit of a byte has its turn.
    for place in range(0, 8 * len(whole), 7):
        whole[place // 8] ^= 1 << place % 8
        try:
            unpack(io.BytesIO(bytes(whole)), around.target)
        except BadBundle:
            pass
        else:
            assert contents(around.target) == {"d": "folder", "d/x": "x", "e": "12345"}
            remove(around.target)
        whole[place // 8] ^= 1 << place % 8
    assert around.changed() == set()


# What comes out.


def unpacked(around: Surroundings, content: bytes) -> dict[str, str]:
    unpack(io.BytesIO(content), around.target)
    inside = {name for name in around.changed() if name.startswith("a/b/cache/target")}
    assert inside == around.changed()
    return contents(around.target)


def test_what_went_in_comes_out(around: Surroundings):
    found = unpacked(around, sealed(GOOD))
    assert found == {"d": "folder", "d/x": "x", "e": "12345"}


def test_an_archive_of_nothing_is_an_empty_folder(around: Surroundings):
    assert unpacked(around, archive()) == {}


def test_names_of_any_language_and_names_that_look_bad_but_are_not(around: Surroundings):
    names = ["...", "..a", "-rf", ".hidden", "a b", "a:b", "naïve", "日本", "می\u200cخواهم", "~"]
    names.sort(key=str.encode)
    assert list(unpacked(around, archive(*map(file, names)))) == sorted(names)


def test_everything_may_be_read_and_nothing_written(around: Surroundings):
    old = os.umask(0)
    try:
        unpacked(around, archive(folder("d"), file("d/x"), program("go")))
    finally:
        os.umask(old)
    modes = {
        path.name: stat.S_IMODE(path.lstat().st_mode)
        for path in (around.target, *around.target.rglob("*"))
    }
    assert modes == {"target": 0o555, "d": 0o555, "x": 0o444, "go": 0o555}


def test_the_largest_and_deepest_that_is_allowed(around: Surroundings):
    entries = [*deep(31), file("/".join(["d"] * 31 + ["x"])), file("n" * 255)]
    unpacked(around, archive(*entries))
    limits = structs.replace(LIMITS, content_bytes=5, entries=3)
    around.target = around.place / "small"
    unpack(io.BytesIO(archive(file("a", b"123"), file("b", b"45"))), around.target, limits=limits)
    assert (around.target / "b").read_bytes() == b"45"


def test_limits_are_those_that_are_given(around: Surroundings):
    content = archive(file("a", b"123"), file("b", b"45"))
    for tight in (
        structs.replace(LIMITS, content_bytes=4),
        structs.replace(LIMITS, entries=1),
        structs.replace(LIMITS, archive_bytes=len(content) - 1),
    ):
        with pytest.raises(BadBundle):
            unpack(io.BytesIO(content), around.target, limits=tight)
    assert around.changed() == set()


# A world that is against it.


@pytest.mark.parametrize("what", ["file", "folder", "full folder", "link out", "dangling link"])
def test_nothing_is_unpacked_over_something(what: str, around: Surroundings):
    if what == "file":
        around.target.write_text("mine")
    elif what.endswith("folder"):
        around.target.mkdir()
        if what == "full folder":
            (around.target / "e").write_text("mine")
    else:
        os.symlink("neighbour" if what == "link out" else "nowhere", around.target)
    before = around.seen()
    with pytest.raises(FileExistsError):
        unpack(io.BytesIO(sealed(GOOD)), around.target)
    assert around.seen() == before


def test_a_folder_swapped_for_a_link_leads_nowhere(around: Surroundings):
    """Somebody who may write there swaps a folder that is being filled for a link."""

    def swap(point: str) -> None:
        (unfinished,) = around.place.glob(".target.*")
        if point == "entry" and (unfinished / "d").is_dir() and not (unfinished / "d2").exists():
            os.rename(unfinished / "d", unfinished / "d2")
            os.symlink("../neighbour", unfinished / "d")

    with pytest.raises(OSError, match="symbolic links"):
        unpack(io.BytesIO(sealed(GOOD)), around.target, reach=swap)
    assert around.changed() == set()


def test_a_planted_link_is_not_written_through(around: Surroundings):
    def plant(point: str) -> None:
        if point == "made":
            (unfinished,) = around.place.glob(".target.*")
            os.symlink("../victim", unfinished / "e")

    with pytest.raises(FileExistsError):
        unpack(io.BytesIO(sealed(GOOD)), around.target, reach=plant)
    assert around.changed() == set()


class Stopped(BaseException):
    pass


def points_of(around: Surroundings) -> list[str]:
    seen: list[str] = []
    unpack(io.BytesIO(sealed(GOOD)), around.place / "rehearsal", reach=seen.append)
    remove(around.place / "rehearsal")
    return seen


def test_whenever_it_is_interrupted_nothing_stays_or_all_of_it_does(around: Surroundings):
    points = points_of(around)
    assert points[0] == "made"
    assert points[-1] == "renamed"
    for stop in range(len(points)):
        left = stop

        def reach(point: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Stopped

        with pytest.raises(Stopped):
            unpack(io.BytesIO(sealed(GOOD)), around.target, reach=reach)
        if points[stop] != "renamed":
            assert around.changed() == set()
    assert (around.target / "e").read_bytes() == b"12345"


def test_what_a_crash_left_is_swept_away_and_links_in_it_are_not_followed(around: Surroundings):
    left = around.place / ".target.unpacking-0123"
    (left / "d").mkdir(parents=True)
    os.symlink("../../neighbour", left / "d" / "link")
    (left / "d").chmod(0o555)
    other = around.place / ".targeted.unpacking-0123"
    other.mkdir()
    sweep(around.target)
    assert around.changed() == {"a/b/cache/.targeted.unpacking-0123"}


def test_no_descriptor_is_left_open(around: Surroundings):
    before = len(os.listdir("/proc/self/fd"))
    unpack(io.BytesIO(archive(*deep(32))), around.target)
    with pytest.raises(BadBundle):
        unpack(io.BytesIO(archive(*deep(33))), around.place / "other")
    assert len(os.listdir("/proc/self/fd")) == before

"""What comes out of an archive is a folder of files, or nothing at all."""

import gzip
import io
import os
import random
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.testing.archives import (
    Entry,
    archive,
    ending,
    file,
    folder,
    program,
    sealed,
    stream,
)
from holdfast.wire.archives import HEAD, LIMITS, MAGIC
from holdfast.worker.unpacking import BadBundle, remove_tree, sweep, unpack

KIB = 1024

# Room enough for whatever is tried here, and small enough to go beyond it quickly.
TIGHT = structs.replace(
    LIMITS, entries=100, content_bytes=4096 * KIB, archive_bytes=512 * KIB, free_bytes=64 * KIB
)


class Surroundings:
    """A folder to unpack into, and everything around it that must stay as it is."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.place = top / "a" / "b" / "cache"
        self.place.mkdir(parents=True)
        self.target = self.place / "target"
        (top / "a" / "victim").write_text("precious")
        (top / "a" / "b" / "victim").write_text("precious")
        (self.place / "victim").write_text("precious")
        (self.place / "neighbour").mkdir()
        (self.place / "neighbour" / "victim").write_text("precious")
        os.symlink("..", self.place / "up")
        self._before = self.seen()

    def seen(self) -> dict[str, tuple[int, str]]:
        found = {}
        for root, folders, files in os.walk(self.top):
            for name in (*folders, *files):
                path = Path(root, name)
                mode = path.lstat().st_mode
                if stat.S_ISLNK(mode):
                    what = os.readlink(path)
                else:
                    what = path.read_text() if stat.S_ISREG(mode) else ""
                found[str(path.relative_to(self.top))] = (mode, what)
        return found

    def changed(self) -> set[str]:
        now = self.seen()
        return {name for name in now | self._before if now.get(name) != self._before.get(name)}


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    return Surroundings(tmp_path)


def tar_of(**fields: object) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as made:
        member = tarfile.TarInfo("innocent")
        for name, value in fields.items():
            setattr(member, name, value)
        made.addfile(member)
    return raw.getvalue()


def zip_of(name: str) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as made:
        made.writestr(name, "x")
    return raw.getvalue()


def kinds_of(kind: bytes) -> bytes:
    return archive(Entry(b"link", b"../victim", kind))


def deep(levels: int) -> list[Entry]:
    return [folder("/".join(["d"] * depth)) for depth in range(1, levels + 1)]


def bomb(size: int) -> bytes:
    return archive(Entry(b"zeros", bytes(size)))


def with_dictionary(inside: bytes) -> bytes:
    deflater = zlib.compressobj(6, zdict=b"a dictionary that nobody has")
    return MAGIC + deflater.compress(inside) + deflater.flush()


def unfinished_stream(inside: bytes) -> bytes:
    deflater = zlib.compressobj(6)
    return MAGIC + deflater.compress(inside) + deflater.flush(zlib.Z_SYNC_FLUSH)


def bad_checksum(inside: bytes) -> bytes:
    whole = sealed(inside)
    return whole[:-1] + bytes([whole[-1] ^ 1])


GOOD = stream(folder("d"), file("d/x"), file("e", b"12345"))

# Each is an archive that must be refused, and what is said about it. One that needs to know where
# it is unpacked is made when it is needed.
MALICIOUS: dict[str, tuple[bytes | Callable[[Path], bytes], str]] = {
    # Names that lead elsewhere.
    "absolute": (lambda top: archive(file(f"{top}/escaped")), "absolute"),
    "absolute folder": (lambda top: archive(folder(f"{top}/escaped")), "absolute"),
    "absolute, to a file that exists": (lambda top: archive(file(f"{top}/a/victim")), "absolute"),
    "two slashes first": (archive(file("//etc/escaped")), "absolute"),
    "only a slash": (archive(file("/")), "absolute"),
    "parent": (archive(file("../escaped")), "no name"),
    "parent, over a file that exists": (archive(file("../victim")), "no name"),
    "parent of the parent": (archive(file("../../escaped")), "no name"),
    "parent as a folder": (archive(folder("..")), "no name"),
    "parent inside": (archive(folder("d"), file("d/../../escaped")), "no name"),
    "parent that comes back": (archive(folder("d"), file("d/../e")), "no name"),
    "parent at the end": (archive(folder("d"), folder("d/..")), "no name"),
    "the folder itself": (archive(folder(".")), "no name"),
    "here and there": (archive(file("./x")), "no name"),
    "here inside": (archive(folder("d"), file("d/./x")), "no name"),
    "empty name inside": (archive(folder("d"), file("d//x")), "no name"),
    "slash at the end": (archive(folder("d/")), "no name"),
    "no name": (archive(file("")), "no name"),
    "folder without a name": (archive(folder("")), "no name"),
    "through a link beside it": (archive(file("../up/escaped")), "no name"),
    "backslash parent": (archive(file("..\\escaped")), "backslash"),
    "backslash path": (archive(file("d\\x")), "backslash"),
    "drive": (archive(file("C:\\escaped")), "backslash"),
    "share of a server": (archive(file("\\\\server\\escaped")), "backslash"),
    # Names that lie.
    "NUL": (archive(file("good\x00../escaped")), "cannot be seen"),
    "NUL at the end": (archive(file("good\x00")), "cannot be seen"),
    "line break": (archive(file("good\nbad")), "cannot be seen"),
    "carriage return": (archive(file("good\rbad")), "cannot be seen"),
    "tab": (archive(file("a\tb")), "cannot be seen"),
    "escape sequence": (archive(file("a\x1b[2Jb")), "cannot be seen"),
    "delete": (archive(file("a\x7f")), "cannot be seen"),
    "C1 control": (archive(file("a\x9b2J")), "cannot be seen"),
    "written backwards": (archive(file("exe\u202etxt.py")), "cannot be seen"),
    "isolate": (archive(file("a\u2066b")), "cannot be seen"),
    "zero width space": (archive(file("a\u200bb")), "cannot be seen"),
    "byte order mark": (archive(file("\ufeffa")), "cannot be seen"),
    "line separator": (archive(file("a\u2028b")), "cannot be seen"),
    "surrogate": (archive(file("a\udc80")), "no text"),
    "no UTF-8": (archive(Entry(b"caf\xe9")), "no text"),
    "overlong slash": (archive(Entry(b"..\xc0\xafescaped")), "no text"),
    "overlong NUL": (archive(Entry(b"a\xc0\x80")), "no text"),
    # Names that collide.
    "told twice": (archive(file("x", b"1"), file("x", b"2")), "told twice"),
    "folder told twice": (archive(folder("d"), folder("d")), "told twice"),
    "file, then folder": (archive(file("d"), folder("d")), "told twice"),
    "folder, then file": (archive(folder("d"), file("d")), "told twice"),
    "told twice inside": (archive(folder("d"), file("d/x"), file("d/x")), "told twice"),
    "capitals": (archive(file("README"), file("readme")), "capitals"),
    "capitals of folders": (archive(folder("Lib"), folder("lib")), "capitals"),
    "capitals, file and folder": (archive(file("LIB"), folder("lib")), "capitals"),
    "capitals inside": (archive(folder("d"), file("d/A"), file("d/a")), "capitals"),
    "sharp s": (archive(file("strasse"), file("straße")), "capitals"),
    "kelvin": (archive(file("k"), file("\u212a")), "capitals"),
    "accents": (archive(file("cafe\u0301"), file("caf\u00e9")), "accents"),
    "accents and capitals": (archive(file("CAFE\u0301"), file("caf\u00e9")), "accents"),
    "ohm": (archive(file("\u03a9"), file("\u2126")), "accents"),
    # Order and places.
    "not in order": (archive(file("b"), file("a")), "not in its place"),
    "back into a folder": (
        archive(folder("a"), file("b"), file("a/x")), "not in its place",
    ),
    "folder never told": (archive(file("d/x")), "not told before"),
    "folder inside never told": (archive(folder("d"), file("d/e/x")), "not told before"),
    "below a file": (archive(file("d"), file("d/x")), "not told before"),
    "in a folder that was left": (
        archive(folder("a"), folder("a/b"), file("a/c"), file("a/c/x")), "not told before",
    ),
    # Kinds.
    "symbolic link": (kinds_of(b"l"), "unknown kind"),
    "symbolic link by its tar number": (kinds_of(b"2"), "unknown kind"),
    "hard link": (kinds_of(b"h"), "unknown kind"),
    "hard link by its tar number": (kinds_of(b"1"), "unknown kind"),
    "character device": (kinds_of(b"c"), "unknown kind"),
    "block device": (kinds_of(b"b"), "unknown kind"),
    "pipe": (kinds_of(b"p"), "unknown kind"),
    "socket": (kinds_of(b"s"), "unknown kind"),
    "setuid program": (kinds_of(b"u"), "unknown kind"),
    "kind zero": (kinds_of(b"\0"), "unknown kind"),
    "kind in capitals": (kinds_of(b"F"), "unknown kind"),
    "link behind good files": (
        archive(file("a"), Entry(b"b", b"/etc/passwd", b"l"), file("c")), "unknown kind",
    ),
    "folder with content": (archive(Entry(b"d", b"x", b"d")), "content of its own"),
    # Too much.
    "bomb": (bomb(1024 * KIB), "times"),
    "bomb of many files": (
        archive(*(file(f"{n:02}", bytes(64 * KIB)) for n in range(20))), "times",
    ),
    "bomb in one name": (sealed(HEAD.pack(b"f", 65_535, 0) + bytes(65_535)), "65535 bytes"),
    "size of everything": (archive(Entry(b"x", b"x", size=2**64 - 1)), "more than"),
    "size that overflows in sum": (
        archive(Entry(b"a", b""), Entry(b"b", b"", size=2**63)), "more than",
    ),
    "sparse: large and empty": (archive(Entry(b"x", b"", size=TIGHT.content_bytes)), "middle"),
    "one entry too many": (
        archive(*(file(f"{n:03}", b"") for n in range(TIGHT.entries + 1))), "entries",
    ),
    "name too long": (archive(file("n" * 256)), "longer than 255"),
    "name too long in bytes": (archive(file("é" * 128)), "longer than 255"),
    "path too long": (
        archive(*(folder("/".join(["n" * 200] * depth)) for depth in range(1, 7))), "1205 bytes",
    ),
    "too deep": (archive(*deep(33)), "more than 32 folders"),
    "archive too large": (
        archive(file("x", random.Random(0).randbytes(TIGHT.archive_bytes))), "larger than",
    ),
    # Broken off, or more than it says.
    "nothing": (b"", "does not begin"),
    "magic alone": (MAGIC, "middle of an entry"),
    "half the magic": (MAGIC[:9], "does not begin"),
    "another version": (MAGIC.replace(b"1", b"2") + zlib.compress(GOOD), "does not begin"),
    "no end": (sealed(file("x").encoded()), "middle of an entry"),
    "half a head": (sealed(GOOD[: HEAD.size - 1]), "middle of an entry"),
    "half a path": (sealed(Entry(b"x", length=2).encoded()), "middle of a path"),
    "half a file": (sealed(Entry(b"x", b"half", size=8).encoded()), "middle of 'x'"),
    "stream cut short": (sealed(GOOD)[:-5], "middle|does not end"),
    "stream without its end": (unfinished_stream(GOOD), "does not end"),
    "wrong checksum": (bad_checksum(GOOD), "inflated"),
    "needs a dictionary": (with_dictionary(GOOD), "inflated"),
    "raw deflate": (MAGIC + zlib.compress(GOOD)[2:-4], "inflated"),
    "no deflate at all": (MAGIC + GOOD, "inflated"),
    "gzip inside": (MAGIC + gzip.compress(GOOD), "inflated"),
    "end with a name": (sealed(file("x").encoded() + ending(1, 3)), "end has a name"),
    "end counts too many": (sealed(file("x").encoded() + ending(2)), "tells of 2"),
    "end counts too few": (sealed(file("x").encoded() + ending(0)), "tells of 0"),
    "two ends": (sealed(GOOD + ending(3)), "behind its end"),
    "entry behind the end": (sealed(GOOD + file("z").encoded()), "behind its end"),
    "zeros behind the end": (sealed(GOOD + bytes(512)), "behind its end"),
    "garbage behind the stream": (sealed(GOOD) + b"x", "behind its stream"),
    "zeros behind the stream": (sealed(GOOD) + bytes(512), "behind its stream"),
    "two streams": (sealed(GOOD) + zlib.compress(GOOD), "behind its stream"),
    "two archives": (sealed(GOOD) + sealed(GOOD), "behind its stream"),
    # Other people's archives.
    "tar": (tar_of(), "does not begin"),
    "tar with a link": (
        tar_of(type=tarfile.SYMTYPE, linkname="/etc/passwd"), "does not begin",
    ),
    "tar with a hard link": (
        tar_of(type=tarfile.LNKTYPE, linkname="../victim"), "does not begin",
    ),
    "tar with a device": (tar_of(type=tarfile.CHRTYPE), "does not begin"),
    "tar with a parent": (tar_of(name="../escaped"), "does not begin"),
    "tar inside": (sealed(tar_of(name="../escaped")), "unknown kind"),
    "gzip": (gzip.compress(tar_of()), "does not begin"),
    "zip": (zip_of("x"), "does not begin"),
    "zip with a parent": (zip_of("../escaped"), "does not begin"),
}  # fmt: skip


def test_there_are_enough_of_them():
    assert len(MALICIOUS) >= 100


@pytest.mark.parametrize("name", MALICIOUS)
def test_a_malicious_archive_changes_nothing_anywhere(name: str, around: Surroundings):
    made, told = MALICIOUS[name]
    content = made(around.top) if callable(made) else made
    with pytest.raises(BadBundle, match=told):
        unpack(io.BytesIO(content), around.target, limits=TIGHT)
    assert around.changed() == set()


def test_a_truncated_archive_is_refused_wherever_it_is_cut(around: Surroundings):
    whole = sealed(GOOD)
    for size in range(len(whole)):
        with pytest.raises(BadBundle):
            unpack(io.BytesIO(whole[:size]), around.target)
    assert around.changed() == set()


def test_a_flipped_bit_never_gives_another_folder(around: Surroundings):
    """Nothing with one gets past the digest. And still: it is found, or the same comes out."""
    whole = bytearray(sealed(GOOD))
    for place in range(8 * len(whole)):
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


def contents(top: Path) -> dict[str, str]:
    return {
        str(path.relative_to(top)): path.read_text() if path.is_file() else "folder"
        for path in sorted(top.rglob("*"))
    }


def remove(tree: Path) -> None:
    beside = os.open(tree.parent, os.O_RDONLY)
    remove_tree(tree.name, beside)
    os.close(beside)


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

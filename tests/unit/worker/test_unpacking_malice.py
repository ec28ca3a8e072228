"""Whatever an archive was made to do, nothing is changed anywhere but in the new folder."""

import gzip
import io
import random
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.testing.archives import (
    Entry,
    Surroundings,
    archive,
    ending,
    file,
    folder,
    sealed,
    stream,
)
from holdfast.wire.archives import HEAD, LIMITS, MAGIC
from holdfast.worker.unpacking import BadBundle, unpack

KIB = 1024

# Room enough for whatever is tried here, and small enough to go beyond it quickly.
TIGHT = structs.replace(
    LIMITS, entries=100, content_bytes=4096 * KIB, archive_bytes=512 * KIB, free_bytes=64 * KIB
)


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

"""Whatever folder goes into a bundle comes out of it; whatever bytes come, nothing else does."""

import io
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.client.bundles import Rules, pack
from holdfast.testing.archives import Entry, ending, sealed
from holdfast.wire.archives import folded, path_problem
from holdfast.worker.unpacking import BadBundle, remove_tree, unpack

RULES = Rules((".git", "__pycache__", ".venv", "*.pyc", ".holdfastignore"))

names = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Cf", "Zl", "Zp"), blacklist_characters="/\\"),
    min_size=1,
    max_size=12,
).filter(lambda name: not path_problem(name) and not RULES.leave_out(name, is_folder=True))

contents = st.tuples(st.booleans(), st.binary(max_size=200))

trees = st.recursive(
    contents,
    lambda inner: st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
).filter(lambda tree: isinstance(tree, dict) and bool(tree))


def collides(tree: dict) -> bool:
    if len({folded(name) for name in tree}) < len(tree):
        return True
    return any(collides(inner) for inner in tree.values() if isinstance(inner, dict))


def build(tree: dict, folder: Path) -> None:
    folder.mkdir()
    for name, inner in tree.items():
        if isinstance(inner, dict):
            build(inner, folder / name)
        else:
            executable, content = inner
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o755 if executable else 0o644)


def seen(folder: Path) -> dict:
    return {
        entry.name: seen(Path(entry.path))
        if entry.is_dir(follow_symlinks=False)
        else (bool(entry.stat().st_mode & 0o100), Path(entry.path).read_bytes())
        for entry in os.scandir(folder)
    }


def clear(place: Path) -> None:
    beside = os.open(place.parent, os.O_RDONLY)
    remove_tree(place.name, beside)
    os.close(beside)


@given(trees)
@settings(max_examples=15)
def test_a_folder_comes_out_as_it_went_in(tree: dict):
    go_there_and_back(tree)


@pytest.mark.slow
@given(trees)
@settings(max_examples=1_000)
def test_many_folders_come_out_as_they_went_in(tree: dict):
    go_there_and_back(tree)


def go_there_and_back(tree: dict) -> None:
    assume(not collides(tree))
    place = Path(tempfile.mkdtemp(prefix="holdfast-trip-"))
    try:
        build(tree, place / "code")
        first, second = io.BytesIO(), io.BytesIO()
        told = pack(place / "code", first)
        first.seek(0)
        unpacked = unpack(first, place / "out")
        assert seen(place / "out") == tree
        assert (unpacked.entries, unpacked.content_bytes) == (told.entries, told.content_bytes)
        # What came out is the same folder again: the archive has one form only.
        assert pack(place / "out", second).digest == told.digest
    finally:
        clear(place)


odd_paths = st.one_of(
    st.binary(max_size=40),
    st.lists(
        st.sampled_from([b"..", b".", b"", b"a", b"A", b"b", b"\x00", b"caf\xc3\xa9"]), max_size=5
    ).map(b"/".join),
)
entries = st.builds(
    Entry,
    path=odd_paths,
    content=st.binary(max_size=20),
    kind=st.sampled_from([b"f", b"d", b"x", b"l", b"e"]),
    size=st.none() | st.integers(0, 2**64 - 1) | st.integers(0, 30),
    length=st.none() | st.integers(0, 2**16 - 1) | st.integers(0, 30),
)


@settings(max_examples=60)
@given(st.lists(entries, max_size=6), st.integers(0, 8), st.binary(max_size=8))
def test_odd_entries_make_a_folder_of_files_or_nothing(
    told: list[Entry], count: int, behind: bytes
):
    check(sealed(b"".join(entry.encoded() for entry in told) + ending(count)) + behind)


@given(st.binary(max_size=300))
def test_bytes_of_any_kind_make_a_folder_of_files_or_nothing(content: bytes):
    check(content)
    check(sealed(content))


def check(content: bytes) -> None:
    place = Path(tempfile.mkdtemp(prefix="holdfast-trip-"))
    try:
        try:
            unpack(io.BytesIO(content), place / "out")
        except BadBundle:
            assert os.listdir(place) == []
            return
        assert os.listdir(place) == ["out"]
        for path in (place / "out").rglob("*"):
            assert path.is_dir() or path.is_file()
            assert not path.is_symlink()
        clear(place / "out")
    finally:
        shutil.rmtree(place)

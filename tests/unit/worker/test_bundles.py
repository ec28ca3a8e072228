"""Unpacked bundles on a machine: brought once, never removed while in use, shared by workers."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from holdfast.testing.archives import archive, file, folder, sealed
from holdfast.wire.archives import LIMITS
from holdfast.wire.contents import new_digest
from holdfast.wire.errors import Unreachable
from holdfast.worker.bundles import BundleCache, Closed
from holdfast.worker.unpacking import BadBundle


def digest_of(content: bytes) -> str:
    digest = new_digest()
    digest.update(content)
    return digest.hexdigest()


class Origin:
    """What a server would have. `fetched` counts how often each was asked for."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.away = False
        self.gate: threading.Event | None = None
        self.asked = threading.Event()

    def add(self, content: bytes) -> str:
        digest = digest_of(content)
        self.contents[digest] = content
        return digest

    def code(self, name: str, size: int = 10) -> str:
        return self.add(archive(folder("d"), file("d/name", name.encode()), file("e", b"x" * size)))

    @contextmanager
    def fetch(self, digest: str) -> Iterator[list[bytes]]:
        self.fetched.append(digest)
        self.asked.set()
        if self.gate is not None:
            self.gate.wait()
        if self.away:
            raise Unreachable("here", "it is away")
        content = self.contents[digest]
        yield [content[:7], content[7:]]


@pytest.fixture
def origin() -> Origin:
    return Origin()


@pytest.fixture
def cache(tmp_path: Path, origin: Origin) -> BundleCache:
    return opened(tmp_path, origin)


def opened(tmp_path: Path, origin: Origin, bound_bytes: int = 1_000_000) -> BundleCache:
    return BundleCache(tmp_path / "cache", origin.fetch, bound_bytes=bound_bytes)


def folders(cache: BundleCache) -> set[str]:
    return {name for name in os.listdir(cache.root) if not name.endswith(".lock")}


def test_a_bundle_is_brought_once(cache: BundleCache, origin: Origin):
    digest = origin.code("one")
    for _ in range(3):
        place = cache.hold(digest)
        assert (place / "d" / "name").read_bytes() == b"one"
        cache.let_go(digest)
    assert origin.fetched == [digest]
    assert folders(cache) == {digest}


def test_it_is_there_for_the_next_worker_too(tmp_path: Path, cache: BundleCache, origin: Origin):
    digest = origin.code("one")
    cache.hold(digest)
    opened(tmp_path, origin).hold(digest)
    assert origin.fetched == [digest]


@pytest.mark.parametrize(
    "content", [b"no bundle", sealed(b""), archive(file("../escaped")), archive(file("x")) + b"y"]
)
def test_a_bad_one_is_refused_and_leaves_nothing(
    cache: BundleCache, origin: Origin, content: bytes
):
    digest = origin.add(content)
    with pytest.raises(BadBundle):
        cache.hold(digest)
    assert folders(cache) == set()


def test_one_with_another_digest_is_refused_before_it_is_looked_at(
    cache: BundleCache, origin: Origin
):
    origin.contents["0" * 64] = archive(file("x"))
    with pytest.raises(BadBundle, match="what the server has under this name"):
        cache.hold("0" * 64)
    with pytest.raises(BadBundle, match="not the digest"):
        cache.hold("../../etc")
    assert folders(cache) == set()
    assert origin.fetched == ["0" * 64]


def test_one_that_is_too_large_is_not_fetched_to_its_end(tmp_path: Path):
    @contextmanager
    def endless(digest: str) -> Iterator[Iterator[bytes]]:
        yield iter(lambda: bytes(100), b"")

    limits = structs.replace(LIMITS, archive_bytes=1_000)
    cache = BundleCache(tmp_path / "cache", endless, limits=limits)
    with pytest.raises(BadBundle, match="larger than 1000"):
        cache.hold("0" * 64)
    assert folders(cache) == set()


def test_what_was_used_longest_ago_goes_first_and_nothing_in_use(tmp_path: Path, origin: Origin):
    cache = opened(tmp_path, origin, bound_bytes=250)
    names = ["one", "two", "three", "four"]
    one, two, three, four = (origin.code(name, 100 - len(name)) for name in names)
    for place, digest in enumerate((one, two, three)):
        cache.hold(digest)
        os.utime(cache.root / f"{digest}.lock", (0, 1_000 + place))
    assert folders(cache) == {one, two, three}, "all are in use"
    cache.let_go(two)
    os.utime(cache.root / f"{two}.lock", (0, 3_000))
    cache.let_go(three)
    os.utime(cache.root / f"{three}.lock", (0, 2_000))
    cache.hold(four)
    assert folders(cache) == {one, four}
    assert sorted(os.listdir(cache.root)) == sorted([one, four, f"{one}.lock", f"{four}.lock"])
    assert cache.hold(two).is_dir()


def test_what_another_worker_uses_stays(tmp_path: Path, origin: Origin):
    first, second = (opened(tmp_path, origin, bound_bytes=150) for _ in range(2))
    theirs, ours, more = (origin.code(name, 97) for name in ("one", "two", "six"))
    first.hold(theirs)
    second.hold(ours)
    second.let_go(ours)
    second.hold(more)
    assert folders(second) == {theirs, more}
    first.let_go(theirs)
    assert (first.hold(theirs) / "d").is_dir()


def test_two_workers_that_need_it_at_once_fetch_it_once(tmp_path: Path, origin: Origin):
    digest = origin.code("one")
    origin.gate = threading.Event()
    caches = [opened(tmp_path, origin) for _ in range(4)]
    places: list[Path] = []
    threads = [
        threading.Thread(target=lambda each=each: places.append(each.hold(digest)))
        for each in caches
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    origin.asked.wait()
    origin.gate.set()
    for thread in threads:
        thread.join()
    assert origin.fetched == [digest]
    assert places == [caches[0].root / digest] * 8
    for each in caches:
        each.let_go(digest)
        each.let_go(digest)


def test_a_server_that_is_away_is_told_and_asked_again(cache: BundleCache, origin: Origin):
    digest = origin.code("one")
    origin.away = True
    with pytest.raises(Unreachable):
        cache.hold(digest)
    origin.away = False
    assert cache.hold(digest).is_dir()


def test_what_a_crash_left_is_gone_at_the_next_start(tmp_path: Path, origin: Origin):
    first = opened(tmp_path, origin)
    assert not first.root.exists(), "nothing is made before it is needed"
    digest = origin.code("one")
    left = first.root / f".{digest}.unpacking-0123456789abcdef"
    (left / "d").mkdir(parents=True)
    (first.root / "somebodys").mkdir()
    second = opened(tmp_path, origin)
    assert folders(second) == {"somebodys"}
    left.mkdir()
    second.hold(digest)
    assert folders(second) == {"somebodys", digest}


def test_one_whose_size_nobody_wrote_down_counts_all_the_same(tmp_path: Path, origin: Origin):
    cache = opened(tmp_path, origin, bound_bytes=150)
    old, new = origin.code("old", 97), origin.code("new", 97)
    cache.hold(old)
    cache.let_go(old)
    (cache.root / f"{old}.lock").write_text("")
    os.utime(cache.root / f"{old}.lock", (0, 1))
    cache.hold(new)
    assert folders(cache) == {new}


def test_whoever_waits_is_let_go_when_the_worker_leaves(tmp_path: Path, origin: Origin):
    digest = origin.code("one")
    origin.gate = threading.Event()
    busy, waiting = opened(tmp_path, origin), opened(tmp_path, origin)
    thread = threading.Thread(target=lambda: busy.hold(digest))
    thread.start()
    origin.asked.wait()
    waiting.close()
    with pytest.raises(Closed):
        waiting.hold(digest)
    origin.gate.set()
    thread.join()


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path, origin: Origin, mode: int):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    with pytest.raises(PermissionError, match="others may write"):
        opened(tmp_path, origin)

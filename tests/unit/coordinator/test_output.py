"""What is kept of the output of attempts, on a real folder."""

import errno
import os
from pathlib import Path

import pytest

from holdfast.coordinator.output import Gap, OutputGone, OutputStore, Quota
from holdfast.coordinator.outputparts import StreamName
from holdfast.wire.output import Output

OUT = StreamName("7", 3, 1, "stdout")
ERR = StreamName("7", 3, 1, "stderr")
SMALL = Quota(stream_bytes=64, all_bytes=1 << 20)


@pytest.fixture
def store(tmp_path: Path) -> OutputStore:
    return OutputStore(tmp_path / "output", SMALL)


def everything(store: OutputStore, name: StreamName) -> tuple[bytes, int]:
    """All that is kept, and how much was told to be missing."""
    content, dropped, offset = b"", 0, 0
    while True:
        piece = store.read(name, offset, 7)
        content, dropped = content + piece.content, dropped + piece.dropped
        if piece.next == offset:
            return content, dropped
        offset = piece.next


def test_what_was_written_is_read_in_pieces(store: OutputStore) -> None:
    assert store.append(OUT, 0, b"hello ") == 6
    assert store.append(OUT, 6, b"world", ended=True) == 11
    assert store.read(OUT, 0, 8) == Output(0, b"hello wo", 8, 0, ended=False)
    assert store.read(OUT, 8, 8) == Output(8, b"rld", 11, 0, ended=True)
    assert store.read(OUT, 11, 8) == Output(11, b"", 11, 0, ended=True)


def test_a_repeat_changes_nothing_and_an_overlap_adds_what_is_new(store: OutputStore) -> None:
    store.append(OUT, 0, b"hello")
    assert store.append(OUT, 0, b"hello") == 5
    assert store.append(OUT, 2, b"llo") == 5
    assert store.append(OUT, 3, b"lo world") == 11
    assert everything(store, OUT) == (b"hello world", 0)


def test_a_gap_is_refused_and_tells_where_to_go_on(store: OutputStore) -> None:
    store.append(OUT, 0, b"hello")
    with pytest.raises(Gap) as gap:
        store.append(OUT, 6, b"world")
    assert gap.value.expected == 5
    assert everything(store, OUT) == (b"hello", 0)


def test_a_sender_that_lost_something_says_so_and_readers_are_told(store: OutputStore) -> None:
    store.append(OUT, 0, b"hello")
    assert store.append(OUT, 15, b"world", skips=True) == 20
    assert store.read(OUT, 5, 100) == Output(15, b"world", 20, 10, ended=False)


def test_the_head_and_a_moving_tail_are_kept(store: OutputStore) -> None:
    text = bytes(range(256)) * 4
    for offset in range(0, len(text), 5):
        store.append(OUT, offset, text[offset : offset + 5])
    head = store.read(OUT, 0, 1000)
    tail = store.read(OUT, head.next, 1000)
    assert head.content == text[:32]
    assert tail.dropped == tail.offset - 32 > 0
    rest, _ = everything(store, OUT)
    assert rest == text[:32] + text[tail.offset :]
    assert 24 <= len(text) - tail.offset <= 32


def test_one_large_chunk_is_bounded_too(store: OutputStore) -> None:
    text = os.urandom(1_000)
    assert store.append(OUT, 0, text, ended=True) == 1_000
    content, dropped = everything(store, OUT)
    assert len(content) + dropped == 1_000
    assert len(content) <= 64
    assert text.endswith(content[32:])


def test_an_offset_below_zero_counts_from_the_end(store: OutputStore) -> None:
    store.append(OUT, 0, b"one two three")
    assert store.read(OUT, -5, 100).content == b"three"
    assert store.read(OUT, -100, 100).content == b"one two three"


def test_another_process_finds_everything_again(store: OutputStore) -> None:
    store.append(OUT, 0, bytes(range(100)))
    store.append(ERR, 0, b"oh", ended=True)
    again = OutputStore(store.root, SMALL)
    assert everything(again, OUT) == everything(store, OUT)
    assert again.read(ERR, 0, 10).ended
    assert again.open_streams() == [OUT]
    assert again.used == store.used
    with pytest.raises(Gap) as gap:
        again.append(OUT, 101, b"x")
    assert gap.value.expected == 100


def test_what_comes_after_the_end_is_kept(store: OutputStore) -> None:
    store.append(OUT, 0, b"hello", ended=True)
    store.append(OUT, 5, b" again")
    again = OutputStore(store.root, SMALL)
    assert everything(again, OUT) == (b"hello again", 0)
    assert again.read(OUT, 0, 100).next == 5
    assert again.read(OUT, 5, 100).ended


def test_a_file_that_a_crash_cut_short_is_told_as_a_gap(store: OutputStore) -> None:
    store.append(OUT, 0, bytes(range(60)))
    (head,) = store.root.rglob("3-1-stdout-0")
    os.truncate(head, 20)
    again = OutputStore(store.root, SMALL)
    assert again.read(OUT, 0, 100).content == bytes(range(20))
    after = again.read(OUT, 20, 100)
    assert (after.dropped, after.offset) == (12, 32)


def test_a_last_file_that_a_crash_cut_short_goes_on_from_there(store: OutputStore) -> None:
    store.append(OUT, 0, b"hello world")
    (head,) = store.root.rglob("3-1-stdout-0")
    os.truncate(head, 4)
    again = OutputStore(store.root, SMALL)
    with pytest.raises(Gap) as gap:
        again.append(OUT, 11, b"!")
    assert gap.value.expected == 4
    assert again.append(OUT, 4, b"o world!") == 12
    assert everything(again, OUT) == (b"hello world!", 0)


def test_a_file_changed_behind_its_back_is_noticed_before_it_is_written(
    store: OutputStore,
) -> None:
    store.append(OUT, 0, b"hello world")
    (head,) = store.root.rglob("3-1-stdout-0")
    os.truncate(head, 4)
    with pytest.raises(OSError, match="changed"):
        store.append(OUT, 11, b"!")
    with pytest.raises(Gap) as gap:
        store.append(OUT, 11, b"!")
    assert gap.value.expected == 4


def test_strange_files_are_left_alone(store: OutputStore) -> None:
    store.append(OUT, 0, b"hello")
    (store.root / "7" / "0" / "3-1-stdout-x").write_bytes(b"?")
    (store.root / "7" / "notes").write_bytes(b"?")
    (store.root / "of. ours").mkdir()
    again = OutputStore(store.root, SMALL)
    assert everything(again, OUT) == (b"hello", 0)


@pytest.mark.parametrize("job_id", ["..", "../x", "a/b", "", ".", "x" * 65, "a b", "\0"])
def test_no_name_leads_out_of_the_folder(store: OutputStore, job_id: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        store.append(StreamName(job_id, 0, 1, "stdout"), 0, b"x")
    with pytest.raises(ValueError, match="cannot be the name"):
        store.append(StreamName("7", 0, 1, "../stdout"), 0, b"x")
    assert store.listed(job_id, 0, 10) == []


def test_the_oldest_that_ended_make_room_and_are_told_as_gone(tmp_path: Path) -> None:
    store = OutputStore(tmp_path, Quota(stream_bytes=1 << 20, all_bytes=10 * 8192))
    for index in range(8):
        store.append(StreamName("1", index, 1, "stdout"), 0, b"x", ended=index != 0)
    for index in range(8, 30):
        store.append(StreamName("1", index, 1, "stdout"), 0, b"x", ended=True)
    assert store.used <= 10 * 8192
    # The first is still under way, and so stays, though it is the oldest.
    assert store.read(StreamName("1", 0, 1, "stdout"), 0, 10).content == b"x"
    assert store.read(StreamName("1", 29, 1, "stdout"), 0, 10).content == b"x"
    for each in (store, OutputStore(tmp_path, store.quota)):
        with pytest.raises(OutputGone):
            each.read(StreamName("1", 1, 1, "stdout"), 0, 10)
        with pytest.raises(OutputGone):
            each.read(StreamName("1", 1, 1, "stderr"), 0, 10)
        assert not each.is_gone(StreamName("1", 1, 2, "stdout"))
        assert not each.is_gone(StreamName("1", 29, 1, "stdout"))


def test_where_all_are_under_way_the_oldest_lose_what_they_have_and_go_on(tmp_path: Path) -> None:
    store = OutputStore(tmp_path, Quota(stream_bytes=1 << 20, all_bytes=4 * 8192))
    for index in range(6):
        store.append(StreamName("1", index, 1, "stdout"), 0, b"hello")
    first = StreamName("1", 0, 1, "stdout")
    assert store.used <= 4 * 8192
    assert store.read(first, 0, 10) == Output(5, b"", 5, 5, ended=False)
    assert store.append(first, 5, b" world") == 11
    assert store.read(first, 0, 10) == Output(5, b" world", 11, 5, ended=False)


def test_one_that_lost_all_and_ends_is_gone(tmp_path: Path) -> None:
    store = OutputStore(tmp_path, Quota(stream_bytes=1 << 20, all_bytes=4 * 8192))
    for index in range(6):
        store.append(StreamName("1", index, 1, "stdout"), 0, b"hello")
    first = StreamName("1", 0, 1, "stdout")
    store.end(first)
    with pytest.raises(OutputGone):
        store.read(first, 0, 10)


def test_forgotten_jobs_leave_nothing(store: OutputStore) -> None:
    store.append(OUT, 0, b"x")
    store.append(StreamName("8", 0, 1, "stdout"), 0, b"x")
    store.forget(["7", "..", "unknown"])
    assert store.jobs() == ["8"]
    assert store.used == 8192
    assert store.read(OUT, 0, 10) == Output(0, b"", 0, 0, ended=False)


def test_a_job_is_listed_by_task_and_in_pages(store: OutputStore) -> None:
    for index in (2_500, 0, 1, 10):
        store.append(StreamName("7", index, 1, "stdout"), 0, b"x" * 100, ended=True)
        store.append(StreamName("7", index, 1, "stderr"), 0, b"y")
    page = store.listed("7", 0, 3)
    assert [(each.index, each.stream) for each in page] == [
        (0, "stderr"), (0, "stdout"), (1, "stderr"), (1, "stdout"),
    ]  # fmt: skip
    assert page[1].size == 100
    assert page[1].kept <= 64
    assert page[1].ended
    assert [each.index for each in store.listed("7", 2, 100)] == [10, 10, 2_500, 2_500]
    assert store.listed("9", 0, 10) == []


def test_a_full_disk_costs_no_more_than_the_chunk(
    store: OutputStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append(OUT, 0, b"hello")
    full = store.root / "7" / "0"
    real_open = Path.open

    def no_space(path: Path, mode: str = "r", *rest: object, **more: object) -> object:
        if "a" in mode and path.parent == full:
            raise OSError(errno.ENOSPC, "no space left on device")
        return real_open(path, mode, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", no_space)
        with pytest.raises(OSError, match="no space"):
            store.append(OUT, 5, b" world")
    assert everything(store, OUT) == (b"hello", 0)
    assert store.append(OUT, 5, b" world") == 11


def test_a_smaller_quota_holds_for_what_comes_next_and_in_all_at_once(store: OutputStore) -> None:
    store.append(OUT, 0, b"a" * 20)
    store.append(StreamName("7", 4, 1, "stdout"), 0, b"b" * 20, ended=True)
    store.limit(Quota(stream_bytes=64, all_bytes=12 * 1024))
    # Each of the two counts for a block, so one of them had to go: the one that has ended.
    assert store.used <= 12 * 1024
    with pytest.raises(OutputGone):
        store.read(StreamName("7", 4, 1, "stdout"), 0, 7)
    store.limit(Quota(stream_bytes=16, all_bytes=1 << 20))
    assert store.append(OUT, 20, b"c" * 100) == 120
    content, dropped = everything(store, OUT)
    assert content == b"a" * 20 + b"c" * 8
    assert dropped == 92
    store.limit(SMALL)
    assert store.append(OUT, 120, b"d" * 20) == 140
    assert everything(store, OUT)[0].endswith(b"d" * 20)

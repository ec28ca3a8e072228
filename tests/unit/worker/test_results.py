"""A result too large for a record is put away where it was made, and told by its digest."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.ids import LeaseId
from holdfast.testing.crew import Crew
from holdfast.wire.contents import INLINE_BYTES, Contents
from holdfast.worker.payloads import CannotEncode, encode_call, encode_result
from holdfast.worker.results import CannotStore, Place, Spool, keeper_of
from holdfast.worker.threads import ThreadExecutor

LEASE = LeaseId(7)
OVERHEAD = len(encode_result(bytes(60_000))) - 60_000


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    place = Place(str(tmp_path / "results"), largest_bytes=100_000)
    crew = Crew(lambda wake: ThreadExecutor(1, wake, lambda: 0, results=place))
    yield crew
    crew.executor.close(0)


def test_the_largest_that_fits_stays_in_its_report_and_one_byte_more_goes_to_the_store(
    crew: Crew, tmp_path: Path
):
    fits = INLINE_BYTES - OVERHEAD
    crew.assign("builtins:bytes", [encode_call((fits,)), encode_call((fits + 1,))])
    crew.until(2)
    inside, outside = crew.done
    assert (len(inside.result), inside.stored) == (INLINE_BYTES, None)
    assert outside.result == b""
    assert outside.stored is not None
    contents = Contents(tmp_path / "results", is_spread=True)
    assert contents.read(outside.stored) == encode_result(bytes(fits + 1))


def test_one_beyond_the_bound_fails_its_task_and_says_what_to_do(crew: Crew, tmp_path: Path):
    crew.assign("builtins:bytes", [encode_call((100_000,)), encode_call((1,))])
    crew.until(2)
    assert "over the limit of 100,000; write it to a file" in crew.failed[0].error
    assert crew.results() == [b"\0"]
    assert not (tmp_path / "results").exists()


def test_where_there_is_no_place_for_it_that_is_said():
    with pytest.raises(CannotEncode, match="no place for results over 64 KiB"):
        keeper_of(None)(LEASE, b"x")


@pytest.mark.parametrize("is_spool", [True, False])
def test_a_disk_that_does_not_take_it_is_named_and_nothing_half_way_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_spool: bool
):
    keep = keeper_of(Place(str(tmp_path / "results"), is_spool=is_spool))

    def full(*rest: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(Path, "write_bytes", full)
        broken.setattr("holdfast.wire.contents.os.fsync", full)
        with pytest.raises(CannotStore, match="5 bytes could not be stored: No space left"):
            keep(LEASE, b"12345")
    assert os.listdir(tmp_path / "results") == []
    assert keep(LEASE, b"12345").size == 5


def test_a_spool_has_a_file_for_each_lease_until_it_is_dropped(tmp_path: Path):
    spool = Spool(tmp_path / "spool")
    spool.clear()
    one, two = spool.keep(LeaseId(1), b"same"), spool.keep(LeaseId(2), b"same")
    assert one == two
    spool.drop(LeaseId(1))
    spool.drop(LeaseId(1))
    with spool.opened(LeaseId(2)) as file:
        assert file.read() == b"same"
    spool.clear()
    assert os.listdir(tmp_path / "spool") == []

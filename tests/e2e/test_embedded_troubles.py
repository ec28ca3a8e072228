"""Trouble around the tasks: in a source of items, in the making of workers, in what they find."""

import os
import resource
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.client.feed import JobFeed
from holdfast.client.feeder import Chunks, Feeder
from holdfast.client.local import Local
from holdfast.coordinator.settings import Settings
from holdfast.core.errors import OperatingError
from holdfast.core.ids import JobId
from holdfast.errors import Closed
from holdfast.testing import chores
from holdfast.worker.kept import lanes_of
from holdfast.worker.threads import ThreadExecutor

PATIENCE_S = 60


def leaving() -> Iterator[int]:
    yield 1
    sys.exit(3)


def test_a_source_that_exits_interrupts_its_map_like_any_other_error(tmp_path: Path) -> None:
    with holdfast.open(tmp_path, workers=1) as hf:
        job = hf.map(chores.square, leaving())
        with pytest.raises(SystemExit):
            list(job.results())
        assert job.wait(PATIENCE_S)
        assert (job.state, job.reason) == ("FAILED", "interrupted")


def test_a_keyed_map_whose_source_exits_tells_whoever_waits(tmp_path: Path) -> None:
    with holdfast.open(tmp_path, workers=1) as hf:
        job = hf.map(chores.square, leaving(), key="k")
        with pytest.raises(SystemExit):
            job.wait(PATIENCE_S)
        assert list(hf.map(chores.square, [1, 2], key="k").results()) == [1, 4]


def test_a_feeder_interrupted_before_it_began_keeps_nobody_from_leaving(tmp_path: Path) -> None:
    hf = holdfast.open(tmp_path, workers=1)
    job = hf.map(chores.square, [1])
    assert list(job.results()) == [1]
    # As Ctrl-C leaves it between being made and being started.
    unborn = Feeder(hf._backend, JobFeed(JobId(job.id)), Chunks([], bytes, digests=False), 0)
    hf._feeders.append(unborn)
    # Another map does not forget it: it may yet begin.
    assert list(hf.map(chores.square, [2]).results()) == [4]
    assert unborn in hf._feeders
    hf.abort()
    with pytest.raises(Closed):
        hf.submit(chores.square, 3)


def test_workers_that_cannot_be_made_leave_the_folder_free(tmp_path: Path) -> None:
    def make(*_: object, **__: object) -> ThreadExecutor:
        raise OSError("too many open files")

    with pytest.raises(OSError, match="too many"):
        Local(tmp_path, make, 1, Settings())
    with holdfast.open(tmp_path, workers=1) as hf:
        assert hf.submit(chores.square, 3).result(PATIENCE_S) == 9


def test_lanes_that_do_not_all_fit_give_back_the_descriptors_they_took() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = len(os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken + 32, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            lanes_of(100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(os.listdir("/dev/fd")) <= taken + 1


def test_who_asks_while_it_turns_out_that_nothing_can_run_is_told(tmp_path: Path) -> None:
    with holdfast.open(tmp_path, workers=1) as hf:
        engine, worker = hf._backend._embedded.engine, hf._backend._worker
        asked, told = threading.Event(), []

        def find_out() -> None:
            asked.wait(PATIENCE_S)
            worker._give_up("no process can be started", None)

        def ask() -> None:
            try:
                hf.submit(chores.square, 3).result(PATIENCE_S)
            except OperatingError as error:
                told.append(str(error))

        # The engine is held until the question stands behind the news.
        engine.post(find_out)
        asker = threading.Thread(target=ask)
        asker.start()
        while engine._inbox.empty():
            asker.join(0.001)
        asked.set()
        asker.join(PATIENCE_S)
        assert told == ["no process can be started"]

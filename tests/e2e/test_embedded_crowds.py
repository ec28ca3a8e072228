"""Many threads at one folder, and what handles cost when nobody holds them any more."""

import gc
import threading
from pathlib import Path

import holdfast
from holdfast.testing import chores

PATIENCE_S = 60
THREADS = 8
EACH = 50


def test_many_threads_submit_at_once_and_each_gets_its_own(tmp_path: Path) -> None:
    got: list[list[tuple[str, int]]] = [[] for _ in range(THREADS)]
    with holdfast.open(tmp_path, workers=2) as hf:

        def work(number: int) -> None:
            mine = [(hf.submit(chores.square, number * EACH + n), n) for n in range(EACH)]
            got[number] = [(handle.id, handle.result(PATIENCE_S)) for handle, _ in mine]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    ids = [job_id for part in got for job_id, _ in part]
    assert sorted(map(int, ids)) == list(range(1, THREADS * EACH + 1))
    results = [value for part in got for _, value in part]
    assert results == [n * n for n in range(THREADS * EACH)]


def test_many_threads_with_one_key_make_one_job(tmp_path: Path) -> None:
    ids: list[str] = []
    started = threading.Barrier(THREADS)
    with holdfast.open(tmp_path, workers=2) as hf:

        def work() -> None:
            started.wait()
            ids.append(hf.submit(chores.square, 7, key="once").id)

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert ids == ["1"] * THREADS


def test_several_maps_are_fed_and_read_side_by_side(tmp_path: Path) -> None:
    with holdfast.open(tmp_path, workers=2) as hf:
        jobs = [hf.map(chores.square, range(first, first + 500)) for first in (0, 1_000, 2_000)]
        totals = [sum(job.results()) for job in jobs]
    assert totals == [sum(n * n for n in range(f, f + 500)) for f in (0, 1_000, 2_000)]


def test_a_job_is_watched_as_long_as_somebody_holds_a_handle(tmp_path: Path) -> None:
    def watched() -> list[str]:
        return sorted(hf._backend.call(lambda coordinator: coordinator.watchers.held()))

    with holdfast.open(tmp_path, workers=1) as hf:
        first = hf.submit(chores.square, 1)
        second = hf.submit(chores.square, 2)
        twin = hf.job(first.id)
        assert watched() == ["1", "2"]
        assert (first.result(PATIENCE_S), second.result(PATIENCE_S)) == (1, 4)
        del second
        gc.collect()
        assert watched() == ["1"]
        del first
        gc.collect()
        assert watched() == ["1"]
        del twin
        gc.collect()
        assert watched() == []

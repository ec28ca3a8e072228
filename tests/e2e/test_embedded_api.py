"""The calls a program makes, against a real folder and a real server, in both executors where it
matters."""

import asyncio
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.client.handles import Results
from holdfast.errors import Refused, TaskFailed
from holdfast.testing import chores
from holdfast.testing.loopback import ServerProcess, WorkerThread

PATIENCE_S = 60
EXECUTORS = ["threads", "processes"]


@pytest.fixture(params=["folder", "server"])
def hf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    """The same calls mean the same thing with a coordinator in this program and behind a server."""
    if request.param == "folder":
        with holdfast.open(tmp_path / "state", workers=2) as opened:
            yield opened
    else:
        with (
            ServerProcess(tmp_path / "served") as server,
            WorkerThread(server),
            holdfast.connect(server.url, token_file=server.token_file) as opened,
        ):
            yield opened


@pytest.mark.parametrize("executor", EXECUTORS)
def test_one_call_a_map_and_an_array_come_back_right_and_are_found_after_a_restart(
    tmp_path: Path, executor: str
) -> None:
    with holdfast.open(tmp_path, executor=executor, workers=2) as hf:  # type: ignore[arg-type]
        single = hf.submit(chores.add, 1, second=2, third=3)
        assert single.result(PATIENCE_S) == 6
        mapped = hf.map(chores.square, range(500))
        assert list(mapped.results()) == [n * n for n in range(500)]
        assert sorted(mapped.as_completed()) == [n * n for n in range(500)]
        array = hf.array(chores.double, 5, 100)
        assert list(array.results()) == [100, 102, 104, 106, 108]
        assert hf.submit(chores.later, 1).result(PATIENCE_S) == 2
        assert (single.id, mapped.id, array.id) == ("1", "2", "3")
    with holdfast.open(tmp_path, executor=executor) as hf:  # type: ignore[arg-type]
        found = hf.job("2")
        assert (found.state, len(found), found.done()) == ("SUCCEEDED", 500, True)
        assert list(found.results()) == [n * n for n in range(500)]
        assert list(hf.job("3").results()) == [100, 102, 104, 106, 108]
        assert hf.submit(chores.square, 3).id == "5"


def test_a_plain_call_of_a_task_is_a_plain_call() -> None:
    @holdfast.task(retries=3)
    def triple(n: int) -> int:
        return 3 * n

    assert triple(4) == 12
    assert triple.options(retries=1).holdfast_options.retries == 1


def test_a_handle_says_when_it_is_done_and_gives_up_waiting_in_time(
    hf: holdfast.Holdfast, tmp_path: Path
) -> None:
    here, there = _pipes(tmp_path, "here", "there")
    handle = hf.submit(chores.tell_and_wait, here, there)
    assert Path(here).read_text() == "begun"
    assert not handle.done()
    assert not handle.wait(0.01)
    with pytest.raises(TimeoutError, match=r"task 1/0 has no result after 0\.01 s"):
        handle.result(0.01)
    with pytest.raises(TimeoutError):
        handle.exception(0.01)
    Path(there).write_text("go on")
    assert handle.result(PATIENCE_S) == "go on"
    assert handle.done()
    assert handle.exception() is None
    assert handle.state == "SUCCEEDED"


def test_an_error_of_the_function_comes_back_with_its_traceback(hf: holdfast.Holdfast) -> None:
    handle = hf.submit(chores.fail, 7)
    with pytest.raises(TaskFailed) as caught:
        handle.result(PATIENCE_S)
    error = caught.value
    assert (error.task_id, error.state) == ("1/0", "QUARANTINED")
    assert error.error == "ValueError: bad item 7"
    assert "chores.py" in error.traceback
    assert 'raise ValueError(f"bad item {n}")' in error.traceback
    assert "worker/threads.py" not in error.traceback
    assert isinstance(handle.exception(), TaskFailed)
    assert (handle.state, handle.reason) == ("FAILED", "quarantined")


def test_a_map_raises_at_the_place_of_the_bad_item_and_goes_on_after_it(
    hf: holdfast.Holdfast,
) -> None:
    results = hf.map(chores.fail_when_odd, range(6)).results()
    good: list[int] = []
    bad: list[str] = []
    while len(good) + len(bad) < 6:
        try:
            good.extend(results)
        except TaskFailed as error:
            bad.append(error.task_id)
    assert (good, bad) == ([0, 2, 4], ["1/1", "1/3", "1/5"])
    job = hf.job("1")
    assert job.wait(PATIENCE_S)
    assert (job.state, job.reason) == ("FAILED", "quarantined")


def test_a_key_finds_the_first_call_and_refuses_another(hf: holdfast.Holdfast) -> None:
    first = hf.submit(chores.add, 1, 2, key="sum")
    again = hf.submit(chores.add, 1, 2, key="sum")
    assert (first.id, again.id) == ("1", "1")
    assert again.result(PATIENCE_S) == 3
    with pytest.raises(Refused, match="key 'sum' belongs to job 1") as caught:
        hf.submit(chores.add, 1, 3, key="sum")
    assert caught.value.code == "key_reused"
    assert hf.refusals() == {"key_reused": 1}


def test_a_map_under_a_key_is_the_same_map_or_is_refused(hf: holdfast.Holdfast) -> None:
    job = hf.map(chores.square, range(10), key="m")
    assert job.wait(PATIENCE_S)
    assert list(hf.map(chores.square, range(10), key="m").results()) == list(job.results())
    for other in (range(9), range(11), [*range(9), 99]):
        with pytest.raises(Refused) as caught:
            hf.map(chores.square, other, key="m")
        assert caught.value.code == "key_reused"
    with pytest.raises(Refused):
        hf.map(chores.double, range(10), key="m")


def test_a_stopped_map_is_found_by_its_key_although_it_never_took_all_its_items(
    hf: holdfast.Holdfast, tmp_path: Path
) -> None:
    (gate,) = _pipes(tmp_path, "gate")

    def items() -> Iterator[int]:
        yield from range(3)
        Path(gate).read_text()
        yield from range(3, 10)

    job = hf.map(chores.square, items(), key="m")
    assert next(iter(job.results())) == 0
    job.cancel()
    Path(gate).write_text("go on")
    assert job.wait(PATIENCE_S)
    assert hf.map(chores.square, range(10), key="m").id == job.id


def test_a_source_that_breaks_interrupts_its_job_and_tells_who_waits(
    hf: holdfast.Holdfast,
) -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise OSError("the source is gone")

    job = hf.map(chores.square, items())
    found: list[int] = []
    with pytest.raises(OSError, match="the source is gone"):
        found.extend(job.results())
    assert job.wait(PATIENCE_S)
    assert (job.state, job.reason) == ("FAILED", "interrupted")


def test_a_source_that_breaks_under_a_key_can_be_gone_on_with(hf: holdfast.Holdfast) -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        list(hf.map(chores.square, items(), key="m").results())
    again = hf.map(chores.square, range(8), key="m")
    assert again.id == "1"
    assert list(again.results()) == [n * n for n in range(8)]


def test_items_of_a_slow_source_run_before_the_source_is_done(
    hf: holdfast.Holdfast, tmp_path: Path
) -> None:
    (gate,) = _pipes(tmp_path, "gate")
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(3):
            yield number
            # The next item comes only when the result of this one is known.
            Path(gate).read_text()

    job = hf.map(chores.square, items())
    for value in job.as_completed():
        taken.append(value)
        Path(gate).write_text("go on")
    assert taken == [0, 1, 4]


def test_an_empty_map_succeeds(hf: holdfast.Holdfast) -> None:
    job = hf.map(chores.square, [])
    assert job.wait(PATIENCE_S)
    assert (job.state, list(job.results())) == ("SUCCEEDED", [])


def test_handles_can_be_awaited(tmp_path: Path) -> None:
    async def main() -> tuple[int, list[int], list[int], int]:
        async with holdfast.open(tmp_path, workers=2) as hf:
            single = await hf.submit_async(chores.square, 7)
            job = await hf.map_async(chores.square, range(20))
            ordered = [value async for value in job.results()]
            unordered = [value async for value in job.as_completed()]
            return await single, ordered, sorted(unordered), len(await job)

    single, ordered, unordered, count = asyncio.run(main())
    assert (single, count) == (49, 20)
    assert ordered == unordered == [n * n for n in range(20)]


def test_an_event_loop_that_was_closed_harms_nobody(
    hf: holdfast.Holdfast, tmp_path: Path
) -> None:
    (gate,) = _pipes(tmp_path, "gate")
    handle = hf.submit(chores.wait_at, gate)
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(_result_of(handle))
    loop.run_until_complete(asyncio.sleep(0))
    loop.stop()
    loop.close()
    Path(gate).write_text("go on")
    assert handle.result(PATIENCE_S) == "go on"
    assert hf.submit(chores.square, 2).result(PATIENCE_S) == 4
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]


async def _result_of(handle: "holdfast.Handle[str]") -> str:
    return await handle


def test_a_waiting_task_can_be_put_off_and_called_back(tmp_path: Path) -> None:
    here, there = _pipes(tmp_path, "here", "there")
    with holdfast.open(tmp_path / "state", workers=1) as hf:
        first = hf.submit(chores.tell_and_wait, here, there)
        assert Path(here).read_text() == "begun"
        moved = hf.submit(chores.square, 3)
        hf.reschedule("2/0", delay="1h")
        behind = hf.submit(chores.square, 4)
        Path(there).write_text("go on")
        assert (first.result(PATIENCE_S), behind.result(PATIENCE_S)) == ("go on", 16)
        assert not moved.done()
        hf.reschedule("2/0")
        assert moved.result(PATIENCE_S) == 9
        with pytest.raises(Refused, match="only a waiting one can move") as caught:
            hf.reschedule("2/0", delay=1)
        assert caught.value.code == "invalid_transition"


def test_work_that_is_put_off_waits_and_can_be_cancelled(hf: holdfast.Holdfast) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    dated = hf.submit(chores.square, 2, not_before=tomorrow)
    doomed = hf.submit(chores.square, 3, delay="1h")
    soon = hf.submit(chores.square, 4, delay="1ms")
    assert soon.result(PATIENCE_S) == 16
    assert [dated.state, doomed.state] == ["PENDING", "PENDING"]
    assert hf.cancel("2/0", reason="not needed")
    assert not hf.cancel("2/0")
    with pytest.raises(TaskFailed, match="task 2/0 is KILLED"):
        doomed.result(PATIENCE_S)
    assert doomed.state == "KILLED"
    assert dated.cancel()
    assert not dated.cancel()


def test_a_failed_job_can_be_sent_back(hf: holdfast.Holdfast, tmp_path: Path) -> None:
    trace = str(tmp_path / "trace")
    once = chores.fail_before.options(retries=0)
    handle = hf.submit(once, trace, 1)
    assert isinstance(handle.exception(PATIENCE_S), TaskFailed)
    assert hf.retry(handle.id) == 1
    assert hf.job(handle.id).wait(PATIENCE_S)
    assert handle.result(PATIENCE_S) == 2
    assert hf.retry(handle.id) == 0


def test_after_a_retry_every_result_is_there_once(hf: holdfast.Holdfast, tmp_path: Path) -> None:
    traces = [(str(tmp_path / str(n)), n % 2) for n in range(4)]
    job = hf.map(chores.fail_once, traces)
    early = job.as_completed()
    assert job.wait(PATIENCE_S)
    assert sorted(_collected(early)) == [1, 1]
    assert hf.retry(job.id) == 2
    # The retry is durable, so this handle knows of it before it knows of the end.
    assert hf.job(job.id).wait(PATIENCE_S)
    assert job.wait(PATIENCE_S)
    assert sorted(job.as_completed()) == [1, 1, 2, 2]
    assert list(job.results()) == [1, 2, 1, 2]
    assert sorted(early) == [2, 2]


def _collected(results: Results[int]) -> list[int]:
    """Everything but what failed."""
    found: list[int] = []
    while True:
        try:
            found.extend(results)
        except TaskFailed:
            continue
        return found


def test_transactions_tell_what_happened_oldest_first(hf: holdfast.Holdfast) -> None:
    hf.submit(chores.square, 2).result(PATIENCE_S)
    # A worker that came meanwhile may stand between them, and is in no record.
    told = [told for told in hf.transactions(limit=10) if told.position]
    last = told[-1].position
    positions = [transaction.position for transaction in told]
    assert positions == list(range(last - len(told) + 1, last + 1))
    # A start is told where the worker had time to tell it before the end.
    commands = [each.command for each in told if each.command != "StartAttempts"]
    assert commands[-3:] == ["SubmitJob", "GrantLeases", "CommitTasks"]
    assert hf.transactions(limit=0) == []
    recorded = [told for told in hf.transactions(limit=10_000) if told.position]
    assert len(recorded) == last
    commands = [told.command for told in recorded if told.command != "StartAttempts"]
    assert commands[-3:] == ["SubmitJob", "GrantLeases", "CommitTasks"]


def test_handles_show_themselves(hf: holdfast.Holdfast) -> None:
    handle = hf.submit(chores.square, 2)
    job = hf.map(chores.square, range(4))
    handle.result(PATIENCE_S)
    job.wait(PATIENCE_S)
    assert repr(handle) == "<handle 1 SUCCEEDED>"
    assert repr(job) == "<job 2 SUCCEEDED 4/4>"
    assert "4 of 4 tasks" in job._repr_html_()
    assert "width:100%" in handle._repr_html_()
    assert repr(hf).endswith("2 workers>") or repr(hf).startswith("<holdfast http://127.0.0.1:")


def test_pickled_functions_run_where_the_user_asks_for_it(hf: holdfast.Holdfast) -> None:
    factor = 3
    handle = hf.submit(lambda n: n * factor, 5, pickle=True)
    assert handle.result(PATIENCE_S) == 15
    assert list(hf.map(lambda n: n + factor, [1, 2], pickle=True).results()) == [4, 5]


def _pipes(folder: Path, *names: str) -> list[str]:
    for name in names:
        os.mkfifo(folder / name)
    return [str(folder / name) for name in names]


def test_errors_come_in_their_places_where_they_are_asked_for(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "s", workers=2) as hf:
        job = hf.map(chores.square, [1, "no number", 3])
        first, second, third = job.results(return_exceptions=True)
        assert (first, third) == (1, 9)
        assert isinstance(second, TaskFailed)
        assert second.task_id == f"{job.id}/1"
        assert len(list(job.as_completed(return_exceptions=True))) == 3

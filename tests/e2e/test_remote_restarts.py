"""A server that is killed and comes back: nobody who waits or feeds has to know."""

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.coordinator.inspect import look_into
from holdfast.core import events as e
from holdfast.errors import Refused, TaskFailed, Unreachable
from holdfast.testing import chores
from holdfast.testing.loopback import ServerProcess, WorkerThread

pytestmark = pytest.mark.slow

PATIENCE_S = 60


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "served") as started:
        yield started


@pytest.fixture
def hf(server: ServerProcess) -> Iterator[holdfast.Holdfast]:
    # A server that is killed again and again is there for moments, and a slow machine starts it
    # slowly: whoever asks may miss many of them.
    patience = f"{10 * PATIENCE_S}s"
    with (
        WorkerThread(server),
        holdfast.connect(
            server.url, token_file=server.token_file, patience=patience
        ) as connected,
    ):
        yield connected


def commits_in(server: ServerProcess) -> list[tuple[str, int]]:
    """Every task that committed, as often as it did, by the log alone."""
    folder = look_into(server.data)
    return [
        (event.job_id, commit.index)
        for told in folder.records(folder.oldest, folder.last)
        for event in told.record.events
        if isinstance(event, e.TasksCompleted)
        for commit in event.commits
    ]


def pipes(folder: Path, *names: str) -> list[str]:
    for name in names:
        os.mkfifo(folder / name)
    return [str(folder / name) for name in names]


def test_whoever_waits_while_the_server_is_killed_goes_on_waiting(
    server: ServerProcess, hf: holdfast.Holdfast, tmp_path: Path
) -> None:
    here, there = pipes(tmp_path, "here", "there")
    handle = hf.submit(chores.tell_and_wait, here, there)
    results: list[str] = []
    waiter = threading.Thread(target=lambda: results.append(handle.result(PATIENCE_S)))
    waiter.start()
    assert Path(here).read_text() == "begun"
    for _ in range(2):
        server.kill()
        server.start()
    Path(there).write_text("go on")
    waiter.join(PATIENCE_S)
    assert results == ["go on"]
    assert commits_in(server) == [(handle.id, 0)]


@pytest.mark.slow
def test_a_map_that_is_fed_while_the_server_is_killed_loses_nothing_and_nothing_comes_twice(
    server: ServerProcess, hf: holdfast.Holdfast
) -> None:
    count, kills = 3_000, {500, 1_500, 2_500}

    def items() -> Iterator[int]:
        for number in range(count):
            if number in kills:
                server.kill()
                server.start()
            yield number

    job = hf.map(chores.square, items())
    completed = threading.Thread(target=lambda: found.extend(job.as_completed()))
    found: list[int] = []
    completed.start()
    assert list(job.results()) == [n * n for n in range(count)]
    completed.join(PATIENCE_S)
    assert sorted(found) == [n * n for n in range(count)]
    assert (job.state, len(job)) == ("SUCCEEDED", count)
    assert sorted(commits_in(server)) == [(job.id, n) for n in range(count)]


def test_what_happened_while_nobody_told_is_told_afterwards(
    server: ServerProcess, tmp_path: Path
) -> None:
    """One client's stream is cut by the restart, and the job is retried before it is back."""
    trace = tmp_path / "trace"
    url, file = server.url, server.token_file
    with holdfast.connect(url, token_file=file) as hf, WorkerThread(server):
        streams = hf._backend._streams
        job = hf.map(chores.fail_once, [(str(trace), 1)])
        job.wait(PATIENCE_S)
        with pytest.raises(TaskFailed, match="not yet"):
            next(iter(job.results()))
        thread = streams._thread
        streams._closing.set()  # It does not come back before we let it.
        server.kill()
        thread.join(PATIENCE_S)
        server.start()
        with holdfast.connect(url, token_file=file) as other:
            assert other.retry(job.id) == 1
            assert list(other.job(job.id).results()) == [2]
        assert job.state == "FAILED"
        streams._closing.clear()
        streams.opened()
        streams.catch_up(job.id)
        assert job.state == "SUCCEEDED"
        assert list(job.results()) == [2]
        assert list(job.as_completed()) == [2]


def test_a_keyed_map_is_gone_on_with_by_another_client(server: ServerProcess) -> None:
    def broken() -> Iterator[int]:
        yield from range(700)
        raise OSError("the source is gone")

    url, file = server.url, server.token_file
    with WorkerThread(server):
        with (
            holdfast.connect(url, token_file=file) as first,
            pytest.raises(OSError, match="the source is gone"),
        ):
            list(first.map(chores.square, broken(), key="m").results())
        server.kill()
        server.start()
        with holdfast.connect(url, token_file=file) as second:
            job = second.map(chores.square, range(1_000), key="m")
            assert list(job.results()) == [n * n for n in range(1_000)]
            with pytest.raises(Refused, match="was fed other items") as caught:
                second.map(chores.square, range(1, 1_001), key="m")
            assert caught.value.code == "key_reused"
    assert sorted(commits_in(server)) == [("1", n) for n in range(1_000)]


@pytest.mark.slow
def test_a_server_that_stays_away_is_given_up_and_may_be_asked_again(
    server: ServerProcess,
) -> None:
    with holdfast.connect(server.url, token_file=server.token_file, patience="300ms") as hf:
        handle = hf.submit(chores.square, 6)
        server.kill()
        with pytest.raises(Unreachable, match="holdfast serve --data"):
            handle.result(PATIENCE_S)
        with pytest.raises(Unreachable):
            hf.submit(chores.square, 7)
        with pytest.raises(Unreachable):
            hf.job(handle.id)
        server.start()
        with WorkerThread(server):
            assert handle.result(PATIENCE_S) == 36
            assert hf.submit(chores.square, 7).result(PATIENCE_S) == 49


def test_a_submit_waits_for_a_server_that_is_being_started(server: ServerProcess) -> None:
    with holdfast.connect(server.url, token_file=server.token_file) as hf, WorkerThread(server):
        hf.submit(chores.square, 1).result(PATIENCE_S)
        server.kill()
        starting = threading.Thread(target=server.start)
        starting.start()
        assert [hf.submit(chores.square, n).result(PATIENCE_S) for n in range(3)] == [0, 1, 4]
        starting.join()
    assert len(commits_in(server)) == 4


def test_an_event_loop_waits_through_a_restart_and_is_never_held_up(
    server: ServerProcess, hf: holdfast.Holdfast
) -> None:
    async def main() -> list[int]:
        handle = await hf.submit_async(chores.square, 3)
        job = await hf.map_async(chores.labour, range(200))
        loop = asyncio.get_running_loop()
        restarting = loop.run_in_executor(None, lambda: (server.kill(), server.start()))
        values = [value async for value in job.results()]
        await restarting
        return [await handle, *values, *(await job)]

    squares = [n * n for n in range(200)]
    assert asyncio.run(main()) == [9, *squares, *squares]


def kill_often(server: ServerProcess, dice: Random, kills: int, over: threading.Event) -> None:
    for _ in range(kills):
        if over.wait(dice.uniform(0.0, 0.5)):
            return
        server.kill()
        server.start()


@pytest.mark.slow
@pytest.mark.parametrize("kills", [4, 25])
def test_many_threads_submit_feed_and_read_while_the_server_is_killed_again_and_again(
    server: ServerProcess, hf: holdfast.Holdfast, dice: Random, kills: int
) -> None:
    """What a client was told is what the log has: each task once, none that nobody asked for."""
    over = threading.Event()
    nemesis = threading.Thread(target=kill_often, args=(server, dice, kills, over))
    told: dict[str, list[int]] = {}
    wanted: dict[str, list[int]] = {}

    def submit(base: int) -> None:
        for number in range(base, base + 5 * kills):
            handle = hf.submit(chores.square, number)
            # It may stand in line behind all that is fed.
            told[handle.id] = [handle.result(10 * PATIENCE_S)]
            wanted[handle.id] = [number * number]

    def feed(base: int, *, in_order: bool) -> None:
        numbers = range(base, base + 50 * kills)
        job = hf.map(chores.labour, (over.wait(0.001) or number for number in numbers))
        found = list(job.results() if in_order else job.as_completed())
        told[job.id], wanted[job.id] = sorted(found), [number * number for number in numbers]

    nemesis.start()
    with ThreadPoolExecutor(4) as pool:
        askers = [
            pool.submit(submit, 0),
            pool.submit(submit, 10_000),
            pool.submit(feed, 20_000, in_order=True),
            pool.submit(feed, 30_000, in_order=False),
        ]
    over.set()
    nemesis.join()
    for asker in askers:
        asker.result()
    assert told == wanted
    expected = sorted((job_id, n) for job_id, values in wanted.items() for n in range(len(values)))
    assert sorted(commits_in(server)) == expected

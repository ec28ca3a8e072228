"""Every way to leave: in order, by an error, by Ctrl-C once and twice, at exit, by a fork."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

import holdfast
from holdfast.coordinator.inspect import look_into
from holdfast.core import events as e
from holdfast.errors import Closed, LogInUse, Refused
from holdfast.testing import chores

PATIENCE_S = 60
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a program whose body is given; it finds the folder in `state`."""
    programs: list[subprocess.Popen[str]] = []

    def start_one(body: str) -> "subprocess.Popen[str]":
        script = tmp_path / f"program{len(programs)}.py"
        head = """
            import os, sys, threading, holdfast
            from holdfast.testing import chores
            state = sys.argv[1]

            def main():
        """
        text = textwrap.dedent(head) + textwrap.indent(textwrap.dedent(body), "    ")
        script.write_text(text + '\n\nif __name__ == "__main__":\n    main()\n')
        program = subprocess.Popen(
            [sys.executable, str(script), str(tmp_path / "state")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        programs.append(program)
        return program

    yield start_one
    for program in programs:
        program.kill()
        program.wait()
        # A child that outlived it may hold the other ends, so their end is not waited for.
        for stream in (program.stdout, program.stderr):
            if stream is not None:
                stream.close()


def pipe(folder: Path, name: str) -> str:
    os.mkfifo(folder / name)
    return str(folder / name)


def ends(folder: Path) -> list[tuple[str, str]]:
    return [
        (end.reason, end.charged)
        for told in look_into(folder).records()
        for event in told.record.events
        if isinstance(event, e.AttemptsReturned | e.TasksQuarantined)
        for end in event.ends
    ]


def reaches(program: "subprocess.Popen[str]", word: str) -> None:
    assert program.stdout is not None
    line = program.stdout.readline()
    assert line.strip() == word, (line, program.stderr.read() if program.stderr else "")


def assert_leaves(program: "subprocess.Popen[str]") -> None:
    """It says what it waits for, and how to leave now."""
    assert program.stderr is not None
    assert "interrupt again to leave now" in program.stderr.readline()


class Interrupted:
    """A program that Ctrl-C strikes while its first task runs and its second waits."""

    def __init__(self, folder: Path, start: Start, *, executor: str, grace: float) -> None:
        self.here, self.there = pipe(folder, "here"), pipe(folder, "there")
        self.program = start(
            f"""
            with holdfast.open(state, workers=1, executor={executor!r}, grace={grace}) as hf:
                handle = hf.submit(chores.tell_and_wait, {self.here!r}, {self.there!r})
                hf.submit(chores.square, 3)
                print("submitted", flush=True)
                handle.result()
            """
        )
        reaches(self.program, "submitted")
        self.await_task()
        self.program.send_signal(signal.SIGINT)

    def await_task(self) -> None:
        assert Path(self.here).read_text() == "begun"

    def await_leaving(self) -> None:
        """Until nothing more is given out, what waits was asked back, and what runs is waited
        for."""
        assert_leaves(self.program)

    def let_task_go(self, word: str) -> None:
        Path(self.there).write_text(word)


def test_an_orderly_end_waits_until_everything_is_fed(tmp_path: Path) -> None:
    with holdfast.open(tmp_path, workers=1) as hf:
        job = hf.map(chores.square, range(5_000))
    with holdfast.open(tmp_path, workers=1) as hf:
        found = hf.job(job.id)
        assert len(found) == 5_000
        assert list(found.results()) == [n * n for n in range(5_000)]


def test_an_error_inside_leaves_without_waiting_for_a_source_that_is_stuck(
    tmp_path: Path,
) -> None:
    never = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        never.wait()

    def leave_by_an_error() -> str:
        with holdfast.open(tmp_path / "s", workers=1) as hf:
            job = hf.map(chores.square, items())
            assert next(iter(job.results())) == 1
            raise ZeroDivisionError(job.id)

    with pytest.raises(ZeroDivisionError):
        leave_by_an_error()
    never.set()
    with holdfast.open(tmp_path / "s", workers=1) as hf:
        again = hf.job("1")
        assert again.wait(PATIENCE_S)
        assert (again.state, again.reason, len(again)) == ("FAILED", "interrupted", 1)


def test_a_map_under_a_key_goes_on_where_its_feeding_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    gate = pipe(tmp_path, "gate")

    def items() -> Iterator[int]:
        yield from range(4)
        Path(gate).read_text()

    def leave_in_the_middle() -> None:
        with holdfast.open(folder, workers=1) as hf:
            job = hf.map(chores.square, items(), key="m")
            assert list(islice(job.results(), 4)) == [0, 1, 4, 9]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave_in_the_middle()
    Path(gate).write_text("go on")
    with holdfast.open(folder, workers=1) as hf:
        assert hf.job("1").state == "RUNNING"
        for other in ([9, 9, 9, 9, 9], range(3), range(1, 11)):
            with pytest.raises(Refused, match="was fed other items; use another key") as caught:
                hf.map(chores.square, other, key="m")
            assert caught.value.code == "key_reused"
        again = hf.map(chores.square, range(10), key="m")
        assert again.id == "1"
        assert list(again.results()) == [n * n for n in range(10)]
    added = [
        range(event.first, event.first + len(event.items))
        for told in look_into(folder).records()
        for event in told.record.events
        if isinstance(event, e.TasksAdded)
    ]
    # However they were cut, each came once, and the second feeding began where the first ended.
    assert [index for chunk in added for index in chunk] == list(range(10))
    assert 4 in [chunk.start for chunk in added]


def test_who_waits_in_another_thread_is_told_that_the_folder_was_closed(tmp_path: Path) -> None:
    told: list[BaseException] = []
    here, gate = pipe(tmp_path, "here"), pipe(tmp_path, "gate")
    hf = holdfast.open(tmp_path / "state", workers=1, grace=0)
    running = hf.submit(chores.tell_and_wait, here, gate)
    assert Path(here).read_text() == "begun"
    waiting = hf.submit(chores.square, 2)

    def wait() -> None:
        try:
            waiting.result()
        except Closed as error:
            told.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    hf.close()
    thread.join(PATIENCE_S)
    assert [str(error) for error in told] == [str(hf._backend._closed())]
    assert not running.done()
    # The thread that was given up still waits at the pipe.
    Path(gate).write_text("go on")


def test_calls_that_race_with_the_end_are_answered_or_told(tmp_path: Path) -> None:
    hf = holdfast.open(tmp_path, workers=1)
    counts = {"answered": 0, "told": 0}
    lock = threading.Lock()
    started = threading.Barrier(5)

    def ask() -> None:
        started.wait()
        try:
            while True:
                hf.submit(chores.square, 1)
                with lock:
                    counts["answered"] += 1
        except Closed:
            with lock:
                counts["told"] += 1

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    hf.submit(chores.square, 2).result(PATIENCE_S)
    hf.close()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert counts["told"] == 4
    with holdfast.open(tmp_path, workers=1) as hf:
        assert int(hf.submit(chores.square, 1).id) == counts["answered"] + 2


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_ctrl_c_releases_what_runs_without_charge_and_the_next_opening_goes_on(
    tmp_path: Path, start: Start, executor: str
) -> None:
    left = Interrupted(tmp_path, start, executor=executor, grace=0.2)
    _, error = left.program.communicate(timeout=PATIENCE_S)
    assert "KeyboardInterrupt" in error
    assert ends(tmp_path / "state") == [("released", "")]
    with holdfast.open(tmp_path / "state", workers=2) as hf:
        assert hf.job("2").wait(PATIENCE_S)
        left.await_task()
        left.let_task_go("go on")
        assert list(hf.job("1").results()) == ["go on"]
        assert list(hf.job("2").results()) == [9]


def test_within_its_grace_a_task_may_finish_after_ctrl_c(tmp_path: Path, start: Start) -> None:
    left = Interrupted(tmp_path, start, executor="threads", grace=60)
    left.await_leaving()
    left.let_task_go("in time")
    left.program.communicate(timeout=PATIENCE_S)
    with holdfast.open(tmp_path / "state", workers=1) as hf:
        assert list(hf.job("1").results()) == ["in time"]
        assert list(hf.job("2").results()) == [9]
    assert ends(tmp_path / "state") == []


def test_a_second_ctrl_c_leaves_at_once_and_in_order(tmp_path: Path, start: Start) -> None:
    here = pipe(tmp_path, "here")
    program = start(
        f"""
        with holdfast.open(state, workers=1, grace=3600) as hf:
            handle = hf.submit(chores.tell_and_hang, {here!r})
            print("submitted", flush=True)
            handle.result()
        """
    )
    reaches(program, "submitted")
    assert Path(here).read_text() == "begun"
    program.send_signal(signal.SIGINT)
    assert_leaves(program)
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=PATIENCE_S)
    assert ends(tmp_path / "state") == [("released", "")]


def test_a_program_that_ends_without_closing_leaves_in_order(tmp_path: Path, start: Start) -> None:
    program = start(
        """
        handle = holdfast.open(state, workers=1).submit(chores.square, 3)
        handle.wait()
        """
    )
    _, error = program.communicate(timeout=PATIENCE_S)
    assert (program.returncode, error) == (0, "")
    with holdfast.open(tmp_path / "state", workers=1) as hf:
        assert list(hf.job("1").results()) == [9]


def test_a_program_that_is_killed_leaves_the_folder_free(tmp_path: Path, start: Start) -> None:
    here = pipe(tmp_path, "here")
    program = start(
        f"""
        hf = holdfast.open(state, workers=1)
        hf.submit(chores.tell_and_hang, {here!r})
        hf.submit(chores.square, 3)
        print("submitted", flush=True)
        threading.Event().wait()
        """
    )
    reaches(program, "submitted")
    assert Path(here).read_text() == "begun"
    with pytest.raises(LogInUse, match=f"process {program.pid}"):
        holdfast.open(tmp_path / "state")
    program.kill()
    program.wait()
    hf = holdfast.open(tmp_path / "state", workers=2, grace=0)
    assert list(hf.job("2").results()) == [9]
    assert Path(here).read_text() == "begun"
    hf.close()


def test_a_forked_copy_owns_nothing_and_says_where_to_go(tmp_path: Path, start: Start) -> None:
    program = start(
        """
        import asyncio
        from holdfast.coordinator.inspect import look_into
        hf = holdfast.open(state, workers=1)
        handle = hf.submit(chores.square, 3, delay="1h")
        before = look_into(state).last
        child = os.fork()
        if child == 0:
            async def wait():
                await handle
            async def read():
                async for _ in hf.job("1").results(): pass
            uses = (
                lambda: hf.submit(chores.square, 1), handle.result, handle.wait, handle.cancel,
                lambda: handle.state, lambda: hf.job("1"), lambda: hf.transactions(),
                lambda: asyncio.run(wait()), lambda: asyncio.run(read()), hf.__enter__,
            )
            for use in uses:
                try:
                    use()
                except holdfast.errors.Closed as error:
                    assert "holdfast serve --data" in str(error), error
                    assert "holdfast.connect()" in str(error), error
                else:
                    os._exit(3)
            hf.close()
            sys.exit(0)  # With everything that runs at exit.
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status
        assert before == look_into(state).last
        assert hf.submit(chores.square, 4).result(60) == 16
        hf.close()
        print("good", flush=True)
        """
    )
    out, error = program.communicate(timeout=PATIENCE_S)
    assert out == "good\n", error


@pytest.mark.parametrize("how", ["closes", "dies"])
def test_a_child_that_outlives_the_program_does_not_keep_the_folder(
    tmp_path: Path, start: Start, how: str
) -> None:
    here, gate = pipe(tmp_path, "here"), pipe(tmp_path, "gate")
    program = start(
        f"""
        hf = holdfast.open(state, workers=1)
        hf.submit(chores.square, 3).result(60)
        if os.fork() == 0:
            chores.tell_and_wait({here!r}, {gate!r})
            os._exit(0)
        if {how!r} == "closes":
            hf.close()
        print("ready", flush=True)
        threading.Event().wait()
        """
    )
    reaches(program, "ready")
    # The child has come to life, and so has let go of what the fork gave it.
    assert Path(here).read_text() == "begun"
    if how == "dies":
        program.kill()
        program.wait()
    with holdfast.open(tmp_path / "state", workers=1) as hf:
        assert list(hf.job("1").results()) == [9]
    Path(gate).write_text("go")

"""Lanes that are real processes: they are killed, crash and hang, and nobody else pays for it."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.testing.crew import PATIENCE_S, Crew
from holdfast.wire.exchange import Released
from holdfast.worker.executor import Executor
from holdfast.worker.payloads import decode_result, encode_call, pickled_target
from holdfast.worker.processes import ProcessExecutor

TASKS = Path(__file__).with_name("executors_tasks.py")


class ProcessCrew(Crew):
    """Lanes that are processes."""

    def __init__(self, slots: int, **options: int) -> None:
        super().__init__(lambda wake: ProcessExecutor(slots, wake, self.clock_ms, **options))

    def clock_ms(self) -> int:
        # Far from the machine's own clock, so that mixing the two would show.
        return time.monotonic_ns() // 1_000_000 + 10**9

    def give(
        self, task: str, *calls: Any, kind: str = "function", **options: Any
    ) -> list[LeaseId]:
        """One task a call, which is its only argument; a bare name is one of our own tasks."""
        target = task if ":" in task else f"script:{TASKS}:{task}"
        payloads = [encode_call((call,), pickle=kind == "pickle") for call in calls]
        return self.assign(target, payloads, kind=kind, **options)


Hire = Callable[..., ProcessCrew]
MakePipe = Callable[[str], "Pipe"]


class Pipe:
    """A named pipe between a task and the test: reading waits for the task to speak."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)

    def hear(self) -> str:
        with open(self.path) as words:
            return words.read()

    def say(self, words: str) -> None:
        with open(self.path, "w") as out:
            out.write(words)


@pytest.fixture
def pipe(tmp_path: Path) -> MakePipe:
    return lambda name: Pipe(tmp_path / name)


@pytest.fixture
def crew() -> Iterator[Hire]:
    crews: list[ProcessCrew] = []

    def hire(slots: int = 1, **options: int) -> ProcessCrew:
        crews.append(ProcessCrew(slots, **options))
        return crews[-1]

    yield hire
    for each in crews:
        each.executor.close(0)


def wait_gone(pid: int) -> None:
    try:
        psutil.Process(pid).wait(PATIENCE_S)
    except psutil.NoSuchProcess:
        return


def test_it_is_an_executor(crew: Hire) -> None:
    executor: Executor = crew(1).executor
    assert executor.slots == 1


def test_a_run_of_128_ends_in_the_order_it_was_given(crew: Hire) -> None:
    one = crew(1)
    leases = one.give("noop", *range(128))
    one.until(128)
    assert one.results() == list(range(128))
    assert one.leases(one.done) == leases


def test_a_lane_keeps_its_child_from_task_to_task(crew: Hire) -> None:
    one = crew(1)
    one.give("where", 1, 2)
    one.until(2)
    one.give("where", 3)
    one.until(3)
    assert len({pid for _, pid in one.results()} - {os.getpid()}) == 1


def test_a_child_that_waits_is_given_work_though_nobody_wakes_its_keeper(
    crew: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = crew(1)
    one.give("noop", 1)
    one.until(1)
    keeper = one.executor._keeper
    with keeper._dealing:
        # The bell rings before the keeper has gone to sleep again; now it has.
        monkeypatch.setattr(keeper, "_ring", lambda: None)
    one.give("noop", 2)
    one.until(2)
    assert one.results() == [1, 2]
    monkeypatch.undo()


def test_tasks_of_every_kind_run_in_children(crew: Hire) -> None:
    one = crew(1)
    offset = 40
    one.give("later", 1)
    one.give(pickled_target(lambda n: n + offset), 2, kind="pickle")
    one.until(2)
    assert decode_result(one.done[0].result) == 2
    assert decode_result(one.done[1].result, pickle=True) == 42


def test_more_than_socket_and_slate_hold_arrives_whole(crew: Hire) -> None:
    one = crew(1)
    sizes = [10, *[60_000] * 40, 20]
    one.give("big", *sizes)
    one.until(len(sizes))
    assert [len(result) for result in one.results()] == sizes


def test_arguments_larger_than_the_socket_arrive_whole(crew: Hire) -> None:
    one = crew(1)
    one.give("builtins:len", b"x" * 5_000_000, b"y" * 3)
    one.until(2)
    assert one.results() == [5_000_000, 3]


@pytest.mark.parametrize(
    ("task", "error", "exit_code"),
    [
        ("fails", "ValueError: bad 3", None),
        ("leaves", "SystemExit: 3", 3),
        ("unsendable", "CannotEncode: the function returned a object", None),
        ("no_such_module:f", "CannotFind: cannot find 'no_such_module:f'", None),
    ],
)
def test_whatever_a_task_raises_fails_it_and_leaves_the_child(
    crew: Hire, task: str, error: str, exit_code: int | None
) -> None:
    one = crew(1)
    one.give("where", 0)
    one.give(task, 3)
    one.give("where", 1)
    one.until(3)
    assert one.failed[0].error.startswith(error)
    assert (one.failed[0].reason, one.failed[0].exit_code) == ("failed", exit_code)
    assert len({pid for _, pid in one.results()}) == 1


@pytest.mark.parametrize(
    ("how", "reason", "error", "exit_code"),
    [
        ("segfault", "failed", "the process running it died: SIGSEGV", -11),
        ("abort", "failed", "the process running it died: SIGABRT", -6),
        (3, "failed", "the process running it exited with code 3", 3),
        (0, "failed", "the process running it exited with code 0", 0),
        ("kill", "worker_lost", "the process running it was killed (SIGKILL)", -9),
    ],
)
def test_a_task_that_ends_its_process_is_charged_alone(
    crew: Hire, how: Any, reason: str, error: str, exit_code: int
) -> None:
    one = crew(1)
    before = one.give("noop", *range(20))
    (killer,) = one.give("dies", how)
    after = one.give("noop", *range(20, 40))
    one.until(41)
    (failed,) = one.failed
    assert failed.lease_id == killer
    assert (failed.reason, failed.exit_code) == (reason, exit_code)
    assert failed.error.startswith(error)
    assert one.leases(one.done) == before + after
    assert one.results() == list(range(40))


@pytest.mark.parametrize(("how", "code"), [("returns", 0), ("exits", 3), ("fails", 1)])
def test_a_copy_that_a_task_forks_ends_with_the_task(
    crew: Hire, tmp_path: Path, how: str, code: int
) -> None:
    one, trace = crew(1), tmp_path / "trace"
    one.give("noop", 0)
    one.give("forks", how)
    # Were the copy to go on, it would run these too, and answer for them on the same socket.
    one.give("mark", *[str(trace)] * 20)
    one.until(22)
    assert one.results() == [0, code, *[None] * 20]
    assert trace.stat().st_size == 20


def test_a_crash_tells_where_in_the_users_code_it_was(crew: Hire) -> None:
    one = crew(1)
    one.give("dies", "segfault")
    one.until(1)
    assert "Segmentation fault" in one.failed[0].traceback
    assert "in dies" in one.failed[0].traceback
    assert "worker/child.py" not in one.failed[0].traceback


def test_many_deaths_in_one_run_never_touch_a_neighbour(crew: Hire, dice: Any) -> None:
    two = crew(2)
    calls = [n if dice.random() > 0.06 else -7 for n in range(1, 120)]
    leases = two.give("dies_or_returns", *calls[:60], slot=0)
    leases += two.give("dies_or_returns", *calls[60:], slot=1)
    two.until(len(calls))
    meant = dict(zip(leases, calls, strict=True))
    assert {f.lease_id for f in two.failed} == {k for k, call in meant.items() if call < 0}
    assert {d.lease_id: decode_result(d.result) for d in two.done} == {
        lease: call for lease, call in meant.items() if call > 0
    }
    assert {f.exit_code for f in two.failed} <= {7}


def test_what_ended_before_a_death_keeps_its_result_and_is_not_run_again(
    crew: Hire, tmp_path: Path
) -> None:
    one, trace = crew(1), tmp_path / "trace"
    # Long enough a run that the child has taken helpings of many tasks when it dies.
    before = one.give("mark", *[str(trace)] * 100)
    one.give("dies", "kill")
    one.until(101)
    assert one.leases(one.done) == before
    assert trace.stat().st_size == 100


def test_a_child_killed_from_outside_loses_the_running_task_only(
    crew: Hire, pipe: MakePipe
) -> None:
    one, door = crew(1), pipe("door")
    (lost,) = one.give("hold", door.path)
    behind = one.give("noop", 1, 2, 3)
    os.kill(int(door.hear()), signal.SIGKILL)
    one.until(4)
    (failed,) = one.failed
    assert (failed.lease_id, failed.reason) == (lost, "worker_lost")
    assert "SIGKILL" in failed.error
    assert one.leases(one.done) == behind


def test_a_child_killed_while_idle_costs_nobody_anything(crew: Hire) -> None:
    one = crew(1)
    one.give("where", 1)
    one.until(1)
    first = one.results()[0][1]
    os.kill(first, signal.SIGKILL)
    one.give("where", 2)
    one.until(2)
    assert one.failed == []
    assert one.results()[1][1] != first


def test_an_attempt_under_way_is_seen_running_on_the_agents_clock(
    crew: Hire, pipe: MakePipe
) -> None:
    one, door, word = crew(1), pipe("door"), pipe("word")
    before_ms = one.clock_ms()
    (lease,) = one.give("until_told", [door.path, word.path])
    door.hear()
    (running,) = one.executor.running()
    assert (running.lease_id, running.timeout_ms) == (lease, 5000)
    assert before_ms <= running.since_ms <= one.clock_ms()
    word.say("enough")
    one.until(1)
    assert one.results() == ["enough"]
    assert one.executor.running() == []


def test_a_result_does_not_wait_for_the_task_behind_it(crew: Hire, pipe: MakePipe) -> None:
    one, door = crew(1), pipe("door")
    one.give("noop", 5)
    one.give("hold", door.path)
    door.hear()
    one.until(1)
    assert one.results() == [5]


def test_what_is_recalled_never_runs_even_from_inside_the_child(
    crew: Hire, pipe: MakePipe, tmp_path: Path
) -> None:
    one, door, word = crew(1), pipe("door"), pipe("word")
    (runs,) = one.give("until_told", [door.path, word.path])
    waits = one.give("mark", *[str(tmp_path / "trace")] * 20)
    door.hear()
    one.executor.recall(frozenset([runs, *waits]))
    one.until(20)
    assert sorted(one.leases(one.released)) == waits
    assert not any(released.started for released in one.released)
    word.say("done")
    one.until(21)
    one.add(one.executor.close(PATIENCE_S * 1000))
    assert one.leases(one.done) == [runs]
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("task", ["spin", "spin_deaf"])
def test_stop_ends_an_endless_loop_and_the_lane_goes_on(
    crew: Hire, pipe: MakePipe, task: str
) -> None:
    one, door = crew(1, kill_grace_ms=50), pipe("door")
    (endless,) = one.give(task, door.path)
    behind = one.give("noop", 1, 2)
    pid = int(door.hear())
    one.executor.stop(endless)
    one.until(2)
    wait_gone(pid)
    assert one.leases(one.done) == behind
    assert (one.failed, one.released, one.executor.lingering()) == ([], [], ())


def test_stop_ends_the_programs_a_task_has_started(crew: Hire, pipe: MakePipe) -> None:
    one, door = crew(1), pipe("door")
    (task,) = one.give("hold_with_program", door.path)
    program = int(door.hear())
    one.executor.stop(task)
    wait_gone(program)
    one.give("noop", 1)
    one.until(1)
    assert one.failed == []


def test_stop_of_an_unstarted_task_drops_it_and_spares_the_child(
    crew: Hire, pipe: MakePipe
) -> None:
    one, door, word = crew(1), pipe("door"), pipe("word")
    (runs,) = one.give("until_told", [door.path, word.path])
    dropped, kept, recalled = one.give("noop", 1, 2, 3)
    door.hear()
    one.executor.stop(dropped)
    # Orders reach the child in turn: when this one is answered, the stop has been heard.
    one.executor.recall(frozenset([recalled]))
    one.until(1)
    word.say("done")
    one.until(3)
    one.add(one.executor.close(PATIENCE_S * 1000))
    assert one.leases(one.done) == [runs, kept]
    assert one.leases(one.released) == [recalled]
    assert one.failed == []


def test_an_idle_lane_takes_what_waits_behind_a_long_task(crew: Hire, pipe: MakePipe) -> None:
    two, door = crew(2), pipe("door")
    two.give("noop", 0, slot=1)
    two.until(1)
    two.give("hold", door.path)
    behind = two.give("where", *range(30))
    pid = int(door.hear())
    two.until(31)
    assert sorted(two.leases(two.done)[1:]) == behind
    assert pid not in {place for _, place in two.results()[1:]}


def test_close_waits_for_what_runs(crew: Hire, pipe: MakePipe) -> None:
    one, door, word = crew(1), pipe("door"), pipe("word")
    (runs,) = one.give("until_told", [door.path, word.path])
    waits = one.give("noop", 1, 2)
    door.hear()
    teller = threading.Thread(target=word.say, args=("done",))
    teller.start()
    one.add(one.executor.close(PATIENCE_S * 1000))
    teller.join()
    # The word may reach the child before the order to close does; then the others run as well.
    assert one.leases(one.done)[0] == runs
    assert sorted(one.leases(one.done + one.released)) == [runs, *waits]
    assert not any(released.started for released in one.released)


def test_close_ends_what_does_not_end_in_time(crew: Hire, pipe: MakePipe) -> None:
    one, door = crew(1, kill_grace_ms=50), pipe("door")
    (endless,) = one.give("spin_deaf", door.path)
    waits = one.give("noop", 1, 2)
    pid = int(door.hear())
    one.add(one.executor.close(0))
    wait_gone(pid)
    started = {released.lease_id: released.started for released in one.released}
    assert started == {endless: True, **dict.fromkeys(waits, False)}
    (late,) = one.give("noop", 1)
    assert one.executor.harvest().released == [Released(JobId("job"), Index(0), late, False)]

"""Lanes that are threads: order, stealing, giving up, closing; and each lease answered once."""

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.testing.crew import Crew
from holdfast.wire.exchange import Released
from holdfast.worker.functions import MissingGuard, loading_script, reference
from holdfast.worker.payloads import encode_call
from holdfast.worker.threads import ThreadExecutor

PATIENCE_S = 30


class Gate:
    """Holds a task until the test lets it go; tells the test that the task has begun."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.open = threading.Event()

    def hold(self) -> None:
        self.begun.release()
        assert self.open.wait(PATIENCE_S)


GATES: dict[str, Gate] = {}
THREADS: list[str] = []


def noop(n: int) -> int:
    return n


def held(name: str) -> str:
    GATES[name].hold()
    return name


def fails(n: int) -> None:
    raise ValueError(f"bad {n}")


def leaves(n: int) -> None:
    raise SystemExit(n)


def unsendable(n: int) -> object:
    return object()


def where() -> str:
    THREADS.append(threading.current_thread().name)
    return THREADS[-1]


def forks(how: str) -> int:
    copy = os.fork()  # noqa: TID251 - a user may do what we do not
    if copy == 0:
        if how == "exits":
            raise SystemExit(3)
        return 0
    return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])


async def later(n: int) -> int:
    return n + 1


class ThreadCrew(Crew):
    """Lanes that are threads, on a clock the test sets."""

    def __init__(self, slots: int) -> None:
        self.now_ms = 1000
        super().__init__(lambda wake: ThreadExecutor(slots, wake, lambda: self.now_ms))

    def give(
        self, function: Callable[..., Any] | str, *calls: Any, **options: Any
    ) -> list[LeaseId]:
        """One task a call: its only argument, or `...` for none."""
        target = function if isinstance(function, str) else reference(function)
        payloads = [encode_call(() if call is ... else (call,)) for call in calls]
        return self.assign(target, payloads, **options)


@pytest.fixture
def crew() -> Iterator[Callable[[int], ThreadCrew]]:
    crews: list[ThreadCrew] = []

    def hire(slots: int = 1) -> ThreadCrew:
        crews.append(ThreadCrew(slots))
        return crews[-1]

    yield hire
    for gate in GATES.values():
        gate.open.set()
    for each in crews:
        each.executor.close(PATIENCE_S * 1000)
    GATES.clear()
    THREADS.clear()


@pytest.fixture
def gate() -> Callable[[str], Gate]:
    def made(name: str) -> Gate:
        GATES[name] = Gate()
        return GATES[name]

    return made


Hire = Callable[[int], ThreadCrew]
MakeGate = Callable[[str], Gate]


def lingering(crew: ThreadCrew) -> list[tuple[LeaseId, int]]:
    """What was given up and may still run, and in which lane."""
    return [(attempt.lease_id, attempt.slot) for attempt in crew.executor.lingering()]


def test_a_run_of_128_ends_in_the_order_it_was_given(crew: Hire) -> None:
    one = crew(1)
    leases = one.give(noop, *range(128))
    one.until(128)
    assert one.results() == list(range(128))
    assert one.leases(one.done) == leases


def test_a_run_rings_far_less_often_than_once_a_task(crew: Hire) -> None:
    one = crew(1)
    one.give(noop, *range(128))
    one.until(128)
    assert one.wakes < 64


def test_lanes_start_with_their_first_task_and_have_names(crew: Hire) -> None:
    # A lane of another test may still be there: it ends when its task does.
    others = set(threading.enumerate())
    two = crew(2)

    def lanes() -> list[threading.Thread]:
        fresh = set(threading.enumerate()) - others
        return [thread for thread in fresh if thread.name.startswith("holdfast-lane-")]

    assert lanes() == []
    two.give(where, ..., slot=1)
    two.until(1)
    assert THREADS == ["holdfast-lane-1"]
    assert [(lane.name, lane.daemon) for lane in lanes()] == [("holdfast-lane-1", True)]


def test_an_attempt_under_way_is_seen_running(crew: Hire, gate: MakeGate) -> None:
    one, door = crew(1), gate("door")
    (lease,) = one.give(held, "door")
    assert door.begun.acquire(timeout=PATIENCE_S)
    (running,) = one.executor.running()
    assert (running.lease_id, running.since_ms, running.timeout_ms) == (lease, 1000, 5000)
    one.now_ms = 1250
    door.open.set()
    one.until(1)
    assert one.executor.running() == []
    assert one.done[0].ran_ms == 250


def test_a_result_does_not_wait_for_the_task_behind_it(crew: Hire, gate: MakeGate) -> None:
    one, _ = crew(1), gate("door")
    one.give(noop, 5)
    one.give(held, "door")
    one.until(1)
    assert one.results() == [5]


@pytest.mark.parametrize(
    ("function", "error", "exit_code"),
    [
        (fails, "ValueError: bad 3", None),
        (leaves, "SystemExit: 3", 3),
        (unsendable, "CannotEncode: the function returned a object", None),
        ("no_such_module:f", "CannotFind: cannot find 'no_such_module:f'", None),
    ],
)
def test_whatever_goes_wrong_fails_its_own_attempt_only(
    crew: Hire, function: Any, error: str, exit_code: int | None
) -> None:
    one = crew(1)
    one.give(function, 3, 3)
    one.give(noop, 4)
    one.until(3)
    assert one.results() == [4]
    assert [failed.reason for failed in one.failed] == ["failed", "failed"]
    assert all(failed.error.startswith(error) for failed in one.failed)
    assert [failed.exit_code for failed in one.failed] == [exit_code] * 2


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(("how", "code"), [("returns", 0), ("exits", 3)])
def test_a_copy_that_a_task_forks_ends_with_the_task(crew: Hire, how: str, code: int) -> None:
    one = crew(1)
    one.give(forks, how)
    one.until(1)
    assert one.results() == [code]


def test_coroutine_functions_run_on_a_loop_of_their_lane(crew: Hire) -> None:
    one = crew(1)
    one.give(later, *range(10))
    one.until(10)
    assert one.results() == list(range(1, 11))


def test_an_idle_lane_steals_from_the_end_of_a_longer_one(crew: Hire, gate: MakeGate) -> None:
    two, door = crew(2), gate("door")
    two.give(held, "door")
    assert door.begun.acquire(timeout=PATIENCE_S)
    two.give(where, *[...] * 8)
    two.give(where, ..., slot=1)
    # Lane 0 is held, so all nine can only end in lane 1.
    two.until(9)
    assert THREADS == ["holdfast-lane-1"] * 9


def test_a_lane_of_another_job_steals_nothing(crew: Hire, gate: MakeGate) -> None:
    two, door = crew(2), gate("door")
    two.give(noop, 1, slot=1, job="other")
    two.give(held, "door")
    assert door.begun.acquire(timeout=PATIENCE_S)
    waiting = two.give(where, ..., ...)
    two.until(1)
    two.executor.recall(frozenset(waiting))
    two.until(3)
    assert two.leases(two.released) == waiting


def test_a_task_to_be_run_alone_is_never_stolen(crew: Hire, gate: MakeGate) -> None:
    two, door = crew(2), gate("door")
    two.give(noop, 1, slot=1)
    two.give(held, "door")
    assert door.begun.acquire(timeout=PATIENCE_S)
    two.give(where, ..., alone=True)
    two.give(noop, 2, slot=1)
    two.until(2)
    door.open.set()
    two.until(4)
    assert THREADS == ["holdfast-lane-0"]


def test_recall_gives_back_only_what_has_not_started(crew: Hire, gate: MakeGate) -> None:
    one, door = crew(1), gate("door")
    leases = one.give(held, "door") + one.give(noop, 1, 2)
    assert door.begun.acquire(timeout=PATIENCE_S)
    one.executor.recall(frozenset(leases[:2]))
    one.until(1)
    assert one.released == [Released(JobId("job"), Index(0), leases[1], False)]
    door.open.set()
    one.until(3)
    assert one.leases(one.done) == [leases[0], leases[2]]


def test_an_attempt_given_up_keeps_its_lane_and_reports_nothing(crew: Hire, gate: MakeGate) -> None:
    one, door = crew(1), gate("door")
    (stuck,) = one.give(held, "door")
    assert door.begun.acquire(timeout=PATIENCE_S)
    one.executor.stop(stuck)
    assert (lingering(one), one.executor.running()) == ([(stuck, 0)], [])
    # Nobody knows when the lane comes back, so it takes nothing.
    (refused,) = one.give(noop, 9)
    one.until(1)
    assert one.released == [Released(JobId("job"), Index(0), refused, False)]
    door.open.set()
    while one.executor.lingering():
        one.hear_the_bell()
    assert (one.done, one.failed) == ([], [])


def test_what_waits_behind_a_stuck_lane_is_given_back(crew: Hire, gate: MakeGate) -> None:
    two, door = crew(2), gate("door")
    stuck, *behind = two.give(held, "door", "never", "never")
    assert door.begun.acquire(timeout=PATIENCE_S)
    two.executor.stop(stuck)
    two.until(2)
    assert two.released == [
        Released(JobId("job"), Index(place), lease, False) for place, lease in enumerate(behind, 1)
    ]


def test_another_lane_stands_in_for_one_that_is_stuck(crew: Hire, gate: MakeGate) -> None:
    three, door, other = crew(3), gate("door"), gate("other")
    (stuck,) = three.give(held, "door")
    three.give(held, "other", slot=1)
    assert door.begun.acquire(timeout=PATIENCE_S)
    assert other.begun.acquire(timeout=PATIENCE_S)
    three.executor.stop(stuck)
    # Neither the lane nor its job has been seen before; one by one, so that no lane must help.
    for count, job in enumerate(("new", "new", "newer"), 1):
        three.give(where, ..., job=job)
        three.until(count)
    assert THREADS == ["holdfast-lane-2"] * 3


def test_a_stopped_task_that_never_started_never_runs(crew: Hire, gate: MakeGate) -> None:
    one, door = crew(1), gate("door")
    one.give(held, "door")
    assert door.begun.acquire(timeout=PATIENCE_S)
    (dropped,) = one.give(where, ...)
    one.executor.stop(dropped)
    one.give(noop, 1)
    door.open.set()
    one.until(2)
    assert THREADS == []
    assert dropped not in one.leases(one.done + one.released)


def test_stop_of_an_ended_attempt_that_was_not_collected_drops_it(crew: Hire) -> None:
    one = crew(1)
    first, second = one.give(noop, 1, 2)
    assert one._bell.wait(PATIENCE_S)
    one.executor.stop(first)
    one.until(1)
    assert one.leases(one.done) == [second]


def test_close_waits_for_what_runs(crew: Hire, gate: MakeGate) -> None:
    one, door = crew(1), gate("door")
    (ends,) = one.give(held, "door")
    waits = one.give(noop, 1, 2)
    assert door.begun.acquire(timeout=PATIENCE_S)
    threading.Timer(0.01, door.open.set).start()
    one.add(one.executor.close(PATIENCE_S * 1000))
    # The door may open before the close begins; then the others run as well.
    assert one.leases(one.done)[0] == ends
    assert sorted(one.leases(one.done + one.released)) == [ends, *waits]
    assert not any(released.started for released in one.released)


def test_close_gives_back_what_does_not_end_in_time(crew: Hire, gate: MakeGate) -> None:
    one, wall = crew(1), gate("wall")
    (hangs,) = one.give(held, "wall")
    assert wall.begun.acquire(timeout=PATIENCE_S)
    assert one.executor.close(10).released == [Released(JobId("job"), Index(0), hangs, True)]


def test_close_does_not_wait_for_what_was_given_up(crew: Hire, gate: MakeGate) -> None:
    one, door = crew(1), gate("door")
    (stuck,) = one.give(held, "door")
    assert door.begun.acquire(timeout=PATIENCE_S)
    one.executor.stop(stuck)
    # An hour of grace: this returns only because nobody waits for that lane.
    harvest = one.executor.close(3_600_000)
    assert (harvest.done, harvest.failed, harvest.released) == ([], [], [])


def test_a_closed_executor_gives_everything_back(crew: Hire) -> None:
    one = crew(1)
    one.executor.close(0)
    (late,) = one.give(noop, 1)
    one.until(1)
    assert one.released == [Released(JobId("job"), Index(0), late, False)]


def test_a_missing_guard_is_fatal_and_charges_nobody(crew: Hire, tmp_path: Any) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from holdfast.worker.functions import MissingGuard, loading_script\n"
        "def f(n): return n\n"
        "raise MissingGuard(loading_script())\n"
    )
    one = crew(1)
    leases = one.give(f"script:{script}:f", 1, 2, 3)
    one.until(3)
    assert one.executor.fatal_kind == MissingGuard.__name__
    assert "has no `if __name__ == '__main__':` guard" in str(one.executor.fatal)
    later_lease = one.give(noop, 1)
    one.until(4)
    assert sorted(one.leases(one.released)) == leases + later_lease
    assert not any(released.started for released in one.released)
    assert loading_script() is None


def test_every_lease_is_answered_for_exactly_once_under_load(crew: Hire, dice: Any) -> None:
    three = crew(3)
    given: list[LeaseId] = []
    stopped: set[LeaseId] = set()
    for _ in range(60):
        given += three.give(noop, *range(dice.randrange(1, 40)), slot=dice.randrange(3))
        three.executor.recall(frozenset(dice.sample(given, k=min(5, len(given)))))
        victim = dice.choice(given)
        if victim not in three.leases(three.done + three.failed + three.released):
            stopped.add(victim)
            three.executor.stop(victim)
        three.add(three.executor.harvest())
    three.until(len(given) - len(stopped))
    three.add(three.executor.close(PATIENCE_S * 1000))
    told = three.leases(three.done + three.failed + three.released)
    assert sorted(told) == sorted(set(given) - stopped)

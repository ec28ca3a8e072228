"""Processes that stand still, die and go on, on machines whose clocks differ."""

import asyncio

import pytest

from holdfast.testing.sim.agenda import SECOND, Agenda, mixed
from holdfast.testing.sim.machines import Killed, Machine, Process


class Stage:
    def __init__(self, *, drift_ppm: int = 0) -> None:
        self.agenda = Agenda(1)
        self.machine = Machine(
            self.agenda, "a", up_us=5 * SECOND, wall_us=9 * SECOND, drift_ppm=drift_ppm
        )
        self.ends: list[BaseException] = []
        self.troubles: list[str] = []
        self.process = Process(self.machine, "p", self.ends.append, self.troubles.append)

    def run(self) -> None:
        while self.agenda.next_us() is not None:
            self.agenda.step()


def test_timers_go_by_the_clock_of_their_machine() -> None:
    stage = Stage(drift_ppm=200)
    rung: list[tuple[int, int]] = []
    note = lambda: rung.append((stage.agenda.now_us, stage.machine.boot_us()))  # noqa: E731
    stage.process.call_later(100.0, note)
    stage.run()
    assert rung[0][0] == pytest.approx(100 * SECOND / 1.0002, abs=2)
    assert rung[0][1] >= 105 * SECOND


def test_only_the_wall_clock_can_be_set() -> None:
    stage = Stage()
    stage.machine.set_wall(-3_600_000)
    assert stage.machine.wall_ms() == 9_000 - 3_600_000
    assert stage.machine.boot_ms() == 5_000


def test_a_frozen_process_does_later_what_came_meanwhile_in_its_order() -> None:
    stage = Stage()
    done: list[tuple[str, int]] = []
    stage.process.freeze(3 * SECOND)
    for name in "ab":
        stage.process.post(lambda name=name: done.append((name, stage.agenda.now_us)))
    stage.process.call_later(1.0, lambda: done.append(("timer", stage.agenda.now_us)))
    stage.run()
    assert done == [("a", 3 * SECOND), ("b", 3 * SECOND), ("timer", 3 * SECOND)]


def test_a_dead_process_does_nothing_more_and_its_tasks_are_over() -> None:
    stage = Stage()
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
            seen.append("slept")
        finally:
            seen.append("tidied up")

    stage.process.post(lambda: stage.process.create_task(work()))
    stage.agenda.step()
    stage.process.post(lambda: seen.append("posted"))
    stage.process.end()
    stage.run()
    assert seen == ["tidied up"]
    assert stage.troubles == []


def test_what_ends_a_process_is_told_and_ends_no_simulation() -> None:
    stage = Stage()

    def die() -> None:
        raise Killed

    stage.process.post(die)
    stage.run()
    assert [type(end) for end in stage.ends] == [Killed]


def test_chance_is_looked_up_by_what_it_is_for() -> None:
    assert mixed(1, 2, 3) == mixed(1, 2, 3)
    assert len({mixed(1, n) for n in range(1_000)}) == 1_000
    assert len({mixed(n, 1) % 100 for n in range(2_000)}) == 100


def test_what_meets_comes_in_an_order_that_the_seed_chooses() -> None:
    def order(seed: int) -> list[int]:
        agenda, came = Agenda(seed), []
        for number in range(20):
            agenda.at(7, lambda number=number: came.append(number))
        while agenda.next_us() is not None:
            agenda.step()
        return came

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in (1, 0xDEADBEEF, 0x12345678)}) > 1


def test_whoever_looks_again_and_again_in_one_instant_keeps_nobody_waiting_for_ever() -> None:
    # With this seed the first that comes is the last of its instant, whatever else comes.
    agenda, came = Agenda(~0x9E3779B97F4A7C15 & 0xFFFF_FFFF), []

    def look() -> None:
        if not came:
            agenda.after(0, look)

    agenda.at(SECOND, lambda: came.append(agenda.done))
    agenda.at(SECOND, look)
    while agenda.next_us() is not None and agenda.done < 10_000:
        agenda.step()
    assert came
    assert agenda.now_us == SECOND

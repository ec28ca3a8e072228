"""Nothing starves: whatever more urgent work keeps coming, every row is served in a known time."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.shape import shape_of
from holdfast.scheduler.fit import suits
from holdfast.testing.clusters import any_machine, any_wants
from holdfast.testing.floor import Floor

ROUND_MS = 100
LONGEST_MS = 500
STEP_MS = 1_000
URGENT = 3

seeds = st.integers(0, 1 << 32)


class Siege:
    """A cluster that is kept full by urgent tasks, and patient jobs that fit on it when idle."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        dice = self.dice
        machines = {f"w{number}": any_machine(dice) for number in range(dice.randint(1, 4))}
        for machine in machines.values():
            machine.is_listening = True
        self.floor = Floor(**machines)
        self.floor.aging.step_ms = STEP_MS
        self.floor.length = dice.choice((1, 3))
        self.stream = [self._wants(priority=dice.randint(1, URGENT)) for _ in range(3)]
        self.patient: dict[str, int] = {}
        self._ends: dict[int, int] = {}
        self._number = 0

    def _wants(self, **fixed: object) -> dict[str, object]:
        """Of what can be asked for, without bounds: those are no matter of time."""
        wants = any_wants(self.dice, gangs=fixed["priority"] == 0)
        drop = {"max_parallel", "keys", "preempts", "retries"}
        return {name: value for name, value in wants.items() if name not in drop} | fixed

    def _press(self) -> None:
        """As much urgent work as could ever be placed at once, of every kind."""
        for wants in self.stream:
            self._number += 1
            self.floor.submit(f"s{self._number}", 30, **wants)

    def _submit_patient(self) -> None:
        for number in range(self.dice.randint(1, 4)):
            job_id = f"p{number}"
            # Jobs of one shape are one row, and a row is served as one: these are apart.
            wants = self._wants(priority=0, target=job_id)
            self.floor.submit(job_id, self.dice.randint(1, 3), **wants)
            job = self.floor.world.state.jobs[job_id]
            shape = shape_of(job)
            able = [seat for seat in self.floor.seats() if suits(seat, shape)]
            if shape.gang and job.spec.placing.gang_by:
                able = [seat for seat in able if seat.attributes.get("zone") == "east"]
            room = sum(seat.total.room(shape, len(seat.slots)) for seat in able)
            if room >= (job.count if shape.gang else 1):
                self.patient[job_id] = self.floor.world.now

    def _end(self) -> None:
        now = self.floor.world.now
        for worker in self.floor.machines:
            tasks = self.floor.tasks_on(worker)
            first = {task.slot: task for task in reversed(tasks)}
            for task in tasks:
                ends = self._ends.setdefault(
                    task.lease_id, now + self.dice.randrange(ROUND_MS, LONGEST_MS)
                )
                # What waits behind another begins when that is over.
                if ends <= now and first[task.slot] is task:
                    self.floor.commit([task])

    def run(self) -> dict[str, int]:
        """How long each patient job waited until it got something, or until the bound."""
        for _ in range(10):
            self._round()
        self._submit_patient()
        waited: dict[str, int] = {}
        for _ in range(self.bound // ROUND_MS + 1):
            self._round()
            for job_id, since in self.patient.items():
                if job_id not in waited and self.floor.where(job_id):
                    waited[job_id] = self.floor.world.now - since
            if len(waited) == len(self.patient):
                break
        return waited

    def _round(self) -> None:
        self._end()
        self._press()
        self.floor.round()
        self.floor.world.sleep(ROUND_MS)

    @property
    def bound(self) -> int:
        """Waiting lifts a row above everything fresh. From then on each other row can go before it
        once, since who is served begins again and never catches up; and for each of them what it
        was given must end, with the run behind it, before the room is free."""
        rows = len(self.stream) + len(self.patient)
        lifted = (URGENT + 2) * STEP_MS
        drained = self.floor.length * (LONGEST_MS + ROUND_MS) + ROUND_MS
        return lifted + (rows + 1) * drained


def check_waiting(seed: int) -> None:
    siege = Siege(seed)
    waited = siege.run()
    assert waited.keys() == siege.patient.keys()
    assert max(waited.values(), default=0) <= siege.bound


@settings(max_examples=12)
@given(seeds)
def test_every_row_is_served_in_a_bounded_time(seed: int) -> None:
    check_waiting(seed)


@pytest.mark.slow
@settings(max_examples=200)
@given(seeds)
def test_every_row_of_very_many_is_served_in_a_bounded_time(seed: int) -> None:
    check_waiting(seed)

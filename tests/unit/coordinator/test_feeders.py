"""Feeders: who still feeds the open jobs."""

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.feeders import KEYED_SILENCE_MS, SILENCE_MS, Feeders
from holdfast.coordinator.ticker import Ticker
from holdfast.core import commands as c
from holdfast.core.ids import Instant, JobId
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.testing.clock import ManualClock, SeededDice

SPEC = JobSpec(name="lazy", kind="function", target="m:f")


class House:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.coordinator = Coordinator(State(), self.clock, SeededDice(0))
        self.feeders = Feeders(self.coordinator)
        self.ticker = Ticker(self.coordinator, keep_finished=10, feeders=self.feeders)

    def open_job(self, key: str = "") -> JobId:
        command = c.SubmitJob(spec=SPEC, sealed=False, key=key)
        job_id = self.coordinator.execute(command, actor="test").answer
        self.feeders.heard(job_id)
        return job_id

    def pass_time(self, ms: int) -> None:
        """Let time pass as an engine would: a step whenever the ticker wants one."""
        end = self.clock.now() + ms
        while (due := self.ticker.next_due()) < end:
            self.clock.advance_to(due)
            self.ticker.step(self.clock.now())
        self.clock.advance_to(end)
        self.ticker.step(self.clock.now())

    def is_open(self, job_id: JobId) -> bool:
        return not self.coordinator.state.jobs[job_id].sealed


def test_a_job_that_nobody_feeds_is_sealed_as_interrupted():
    house = House()
    job_id = house.open_job()
    house.pass_time(SILENCE_MS - 1)
    assert house.is_open(job_id)
    house.pass_time(1)
    assert not house.is_open(job_id)
    assert house.coordinator.state.jobs[job_id].interrupted


def test_a_sign_of_life_keeps_a_job_open():
    house = House()
    job_id = house.open_job()
    for _ in range(5):
        house.pass_time(SILENCE_MS - 1)
        house.feeders.heard(job_id)
    assert house.is_open(job_id)


def test_a_feeder_with_a_key_may_come_back_within_a_day():
    house = House()
    plain, keyed = house.open_job(), house.open_job(key="k")
    house.pass_time(KEYED_SILENCE_MS - 1)
    assert (house.is_open(plain), house.is_open(keyed)) == (False, True)
    house.pass_time(1)
    assert not house.is_open(keyed)


def test_after_a_restart_a_feeder_has_its_whole_time_again():
    house = House()
    job_id = house.open_job()
    house.pass_time(SILENCE_MS - 1)
    house.feeders = Feeders(house.coordinator)
    house.ticker = Ticker(house.coordinator, keep_finished=10, feeders=house.feeders)
    house.pass_time(SILENCE_MS - 1)
    assert house.is_open(job_id)
    house.pass_time(1)
    assert not house.is_open(job_id)


def test_what_ended_is_not_remembered():
    house = House()
    job_id = house.open_job()
    house.coordinator.execute(c.SealJob(job_id=job_id, count=0), actor="test")
    house.pass_time(2 * SILENCE_MS)
    assert house.feeders.silent(Instant(house.clock.now() + SILENCE_MS)) == ()
    house.feeders.heard(JobId("never was"))
    house.pass_time(2 * SILENCE_MS)
    assert house.feeders._heard == {}

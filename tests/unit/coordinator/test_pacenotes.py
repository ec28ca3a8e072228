"""What might start in a span of time, and how long tasks took, at a moment of the past."""

from pathlib import Path

import pytest

from holdfast.coordinator import notebook
from holdfast.coordinator.crews import LiveCrew, NotedCrew
from holdfast.coordinator.fleetnotes import FleetNotes, fleet_at
from holdfast.coordinator.notebook import LOOK_MS
from holdfast.coordinator.pacenotes import FILE, LONGEST_TARGET, PaceNotes, paced_at
from holdfast.coordinator.surroundings import Surroundings
from holdfast.core import commands as c
from holdfast.core.ids import Instant
from holdfast.core.spec import JobSpec
from holdfast.scheduler.explain import explain
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Hello

TERM_MS = 600_000
MINUTE = 60_000
LIMIT = c.SetLimit(scope="namespace", name="default", starts=2, per_ms=MINUTE)
NAME = ("namespace", "default")
SPEC = JobSpec(name="j", kind="k", target="t")


class House:
    """A coordinator with one worker of many slots, its notes in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.service = Service(self.clock, SeededDice(1), term_ms=TERM_MS)
        self.begin()

    def begin(self) -> None:
        coordinator, exchanges = self.service.coordinator, self.service.exchanges
        self.fleet = FleetNotes(self.folder, coordinator, exchanges)
        self.notes = PaceNotes(self.folder, coordinator, exchanges.placement)
        self.worker = Post(self.service, name="w")
        self.worker.say(slots=8, hello=Hello("host", 1, "1"))

    def turn(self, ms: int = 0) -> None:
        """Time passes, everything that is due is done, and what changed is noted."""
        self.clock.advance(ms)
        self.service.settle()
        self.fleet.step(self.service.coordinator.now())
        self.notes.step(self.service.coordinator.now())

    def submit(self, count: int = 1, **wants: object) -> str:
        request = c.SubmitJob(spec=SPEC, items=(b"",) * count, **wants)
        return str(self.service.do(request).answer)

    def now(self) -> Instant:
        return self.service.coordinator.now()

    def noted(self) -> NotedCrew:
        state = self.service.coordinator.state
        found = fleet_at(self.folder, int(state.position), self.now()) or ()
        paced = paced_at(self.folder, int(state.position), self.now())
        return NotedCrew(state, self.now(), found, paced)

    def live(self) -> LiveCrew:
        return LiveCrew(self.service.coordinator.state, self.service.exchanges)

    def why(self, crew: NotedCrew | LiveCrew, job_id: str, index: int = 0) -> list[str]:
        state = self.service.coordinator.state
        around = Surroundings(state, self.now(), self.clock.wall(), crew)
        return [one.code for one in explain(around.situation(state.jobs[job_id], index))]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_rate_that_was_used_up_is_told_of_the_past_as_it_was_of_then(house: House) -> None:
    house.service.do(LIMIT)
    house.live().tokens()
    house.turn()
    house.turn(MINUTE + LOOK_MS)
    job_id = house.submit(3)
    house.turn(LOOK_MS)
    assert house.why(house.live(), job_id, 2) == ["rate_namespace"]
    assert house.why(house.noted(), job_id, 2) == ["rate_namespace"]
    house.clock.advance(MINUTE // 4)
    assert house.noted().tokens() == house.live().tokens() == {NAME: 0}
    house.clock.advance(MINUTE // 4 + LOOK_MS)
    assert house.noted().tokens() == house.live().tokens() == {NAME: 1}


def test_a_bucket_that_was_never_looked_at_had_not_begun(house: House) -> None:
    assert house.noted().tokens() == {}
    house.service.do(LIMIT)
    assert house.noted().tokens() == {}
    house.turn()
    house.clock.advance(MINUTE)
    assert house.noted().tokens() == house.live().tokens() == {NAME: 0}


def test_what_gave_something_is_noted_although_nothing_else_happens(house: House) -> None:
    house.service.do(LIMIT)
    house.live().tokens()
    house.turn()
    house.turn(MINUTE)
    assert house.notes.next_due() == 0
    house.submit(2)
    house.turn(1)
    due = house.notes.next_due()
    assert due == house.now() + LOOK_MS - 1
    house.turn(LOOK_MS)
    assert house.notes.next_due() == 0
    assert house.noted().tokens() == {NAME: 0}


def test_a_bucket_begins_empty_with_its_process_and_ends_with_its_limit(house: House) -> None:
    house.service.do(LIMIT)
    house.live().tokens()
    house.turn()
    house.turn(2 * MINUTE)
    assert house.noted().tokens() == {NAME: 2}
    house.service.crash()
    house.begin()
    house.turn()
    assert house.noted().tokens() == {NAME: 0}
    house.service.do(c.ClearLimit(scope="namespace", name="default"))
    assert house.noted().tokens() == {}


def test_how_long_tasks_took_is_known_of_the_past(house: House) -> None:
    paces = house.service.exchanges.placement.paces
    house.turn()
    assert house.noted().paces.mean_ms(SPEC) is None
    paces.note(SPEC, [400])
    house.turn(LOOK_MS)
    then = (int(house.service.coordinator.state.position), house.now())
    paces.note(SPEC, [9_000])
    house.turn(LOOK_MS)
    assert house.noted().paces.mean_ms(SPEC) == 9_000
    assert paced_at(house.folder, *then).means_us == {("k", "t"): 400_000}


def test_small_changes_and_long_names_are_not_noted(house: House) -> None:
    paces = house.service.exchanges.placement.paces
    paces.note(SPEC, [1_000])
    paces.note(JobSpec(name="j", kind="k", target="t" * (LONGEST_TARGET + 1)), [1])
    house.turn()
    before = (house.folder / FILE).read_bytes()
    for mean in (1_000, 1_100, 1_200):
        paces.note(SPEC, [mean])
        house.turn(LOOK_MS)
    assert (house.folder / FILE).read_bytes() == before
    assert list(paced_at(house.folder, 1 << 40, Instant(1 << 60)).means_us) == [("k", "t")]


def test_the_notes_are_bounded_and_what_holds_is_said_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "MOST_BYTES", 500)
    house.service.do(LIMIT)
    house.live().tokens()
    house.turn()
    paces = house.service.exchanges.placement.paces
    for number in range(61):
        paces.note(JobSpec(name="j", kind="k", target=f"t{number % 2}"), [10 * 2**number])
        house.turn(LOOK_MS)
    sizes = [(house.folder / name).stat().st_size for name in (FILE, f"{FILE}.old")]
    assert max(sizes) < 1_000
    crew = house.noted()
    assert crew.tokens() == house.live().tokens() == {NAME: 2}
    assert crew.paces.means_us == paces.means_us


def test_a_disk_that_takes_no_notes_harms_nobody(house: House) -> None:
    (house.folder / FILE).mkdir()
    house.service.do(LIMIT)
    house.turn()
    house.turn(LOOK_MS)
    assert house.notes.next_due() == 0

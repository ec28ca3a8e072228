"""Which workers there were at a moment of the past, from the notes beside the log."""

from pathlib import Path

import pytest

from holdfast.coordinator import notebook
from holdfast.coordinator.crews import NotedCrew
from holdfast.coordinator.fleetnotes import FILE, LOOK_MS, FleetNotes, fleet_at
from holdfast.coordinator.surroundings import Surroundings
from holdfast.core import commands as c
from holdfast.core.ids import NEVER, Instant, WorkerId
from holdfast.core.spec import JobSpec
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Hello

TERM_MS = 10_000
HELLO = Hello("host", 1, "1", attributes=(("zone", "east"),))


class House:
    """A coordinator whose fleet is noted in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.service = Service(self.clock, SeededDice(1), term_ms=TERM_MS)
        self.begin()

    def begin(self) -> None:
        service = self.service
        self.notes = FleetNotes(self.folder, service.coordinator, service.exchanges)
        self.moment()

    def moment(self) -> tuple[int, Instant]:
        """A turn of the engine, and when that was; then a little time passes."""
        coordinator = self.service.coordinator
        self.notes.step(coordinator.now())
        self.service.settle()
        then = (int(coordinator.state.position), coordinator.now())
        self.clock.advance(1)
        return then

    def pass_a_term(self) -> None:
        """Step by step: while the coordinator is away nobody is silent."""
        for _ in range(8):
            self.clock.advance(TERM_MS // 8)
            self.service.settle()

    def standing(self, then: tuple[int, Instant]) -> dict[str, str] | None:
        found = fleet_at(self.folder, *then)
        return None if found is None else {worker.worker: how for worker, how in found}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_every_change_of_the_fleet_is_found_at_its_moment(house: House) -> None:
    worker = Post(house.service, name="w")
    alone = house.moment()
    worker.say(slots=2, hello=HELLO)
    joined = house.moment()
    worker.say(slots=3, hello=HELLO)
    larger = house.moment()
    worker.say(slots=3, draining=True)
    draining = house.moment()
    house.service.exchanges.unpark_all()
    house.pass_a_term()
    silent = house.moment()
    worker.say(slots=3, leaving=True)
    left = house.moment()
    assert [house.standing(then) for then in (alone, joined, larger, draining, silent, left)] == [
        {}, {"w": "open"}, {"w": "open"}, {"w": "draining"}, {"w": "silent"}, {},
    ]  # fmt: skip
    for then, slots in ((joined, 2), (larger, 3)):
        ((found, _),) = fleet_at(house.folder, *then) or ()
        assert (found.capacity.slots, found.capacity.cpus_milli) == (slots, slots * 1_000)
        assert found.hello is not None
        assert found.hello.attributes == (("zone", "east"),)


def test_nothing_is_written_while_nothing_changes(house: House) -> None:
    worker = Post(house.service, name="w")
    worker.say(hello=HELLO)
    house.moment()
    before = (house.folder / FILE).read_bytes()
    for _ in range(5):
        worker.say()
        house.clock.advance(notebook.LOOK_MS)
        house.moment()
    assert (house.folder / FILE).read_bytes() == before


def test_after_a_restart_nobody_is_there_until_heard_of(house: House) -> None:
    worker = Post(house.service, name="w")
    worker.say(hello=HELLO)
    before = house.moment()
    house.service.crash()
    house.begin()
    after = house.moment()
    assert (house.standing(before), house.standing(after)) == ({"w": "open"}, {})


def test_workers_that_end_with_their_process_are_noted_as_gone(house: House) -> None:
    Post(house.service, name="w").say(hello=HELLO)
    before = house.moment()
    house.notes.leave()
    after = house.moment()
    assert (house.standing(before), house.standing(after)) == ({"w": "open"}, {})


def test_before_the_first_note_nobody_knows(house: House, tmp_path: Path) -> None:
    position, now = house.moment()
    assert house.standing((position, Instant(now - 10))) is None
    assert house.standing((0, now)) is None
    assert fleet_at(tmp_path / "elsewhere", position, now) is None


def test_the_notes_are_bounded_and_say_where_they_begin(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "MOST_BYTES", 500)
    first = house.moment()
    worker = Post(house.service, name="w")
    moments = []
    for slots in range(1, 60):
        worker.say(slots=slots, hello=HELLO)
        moments.append((slots, house.moment()))
    sizes = [(house.folder / name).stat().st_size for name in (FILE, f"{FILE}.old")]
    assert max(sizes) < 1_000
    assert house.standing(first) is None
    kept = [(slots, fleet_at(house.folder, *then)) for slots, then in moments]
    known = [(slots, found) for slots, found in kept if found is not None]
    assert 5 < len(known) < len(kept)
    for slots, ((found, _),) in known:
        assert found.capacity.slots == slots


def test_a_line_that_a_crash_cut_short_costs_only_itself(house: House) -> None:
    Post(house.service, name="a").say(hello=HELLO)
    house.moment()
    path = house.folder / FILE
    path.write_bytes(path.read_bytes()[:-5])
    Post(house.service, name="b").say(hello=HELLO)
    assert house.standing(house.moment()) == {"b": "open"}


def test_a_disk_that_takes_no_notes_harms_nobody(house: House) -> None:
    (house.folder / FILE).unlink()
    (house.folder / FILE).mkdir()
    Post(house.service, name="a").say(hello=HELLO)
    house.moment()
    house.moment()
    assert list(house.service.exchanges.workers) == ["a"]


def test_the_past_is_explained_with_the_workers_of_then(house: House) -> None:
    spec = JobSpec(name="j", kind="k", target="t", cpus_milli=2_000)
    job = str(house.service.do(c.SubmitJob(spec=spec, items=(b"",))).answer)
    house.service.settle()
    told = []
    for slots in (0, 1, 2):
        if slots:
            Post(house.service, name=f"w{slots}").say(slots=slots, hello=HELLO)
        house.notes.step(house.service.coordinator.now())
        state, now = house.service.coordinator.state, house.service.coordinator.now()
        crew = NotedCrew(state, now, fleet_at(house.folder, int(state.position), now) or ())
        told.append(Surroundings(state, now, house.clock.wall(), crew).key(state.jobs[job]))
    assert told == ["no_worker", "too_large", "next"]


def test_who_is_let_go_is_noted_as_gone(house: House) -> None:
    worker = Post(house.service, name="w")
    worker.say(slots=2, hello=HELLO)
    there = house.moment()
    assert house.service.exchanges.registry.forget(WorkerId("w")) is not None
    gone = house.moment()
    assert [house.standing(then) for then in (there, gone)] == [{"w": "open"}, {}]


def test_who_falls_silent_is_looked_for_though_nobody_says_anything(house: House) -> None:
    worker = Post(house.service, name="w")
    assert house.notes.next_due() == NEVER
    worker.say(slots=2, hello=HELLO)
    house.moment()
    house.service.exchanges.unpark_all()
    house.pass_a_term()
    assert NEVER < house.notes.next_due() <= house.service.coordinator.now()
    silent = house.moment()
    worker.say(slots=2)
    house.clock.advance(LOOK_MS)
    back = house.moment()
    assert [house.standing(then) for then in (silent, back)] == [{"w": "silent"}, {"w": "open"}]


def test_one_who_changes_among_many_is_the_only_one_looked_at(house: House) -> None:
    workers = [Post(house.service, name=f"w{number}") for number in range(20)]
    for worker in workers:
        worker.say(slots=2, hello=HELLO)
    house.moment()
    before = (house.folder / FILE).read_bytes().splitlines()
    workers[7].say(slots=3)
    assert house.service.exchanges.registry.changed == {"w7"}
    house.moment()
    (fresh,) = (house.folder / FILE).read_bytes().splitlines()[len(before) :]
    assert b'"w7"' in fresh

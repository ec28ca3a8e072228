"""What the log says of tasks in quarantine is read once, wherever it is kept, and remembered."""

from collections.abc import Iterator

import pytest

from holdfast.coordinator import quarantine
from holdfast.coordinator.inspect import HistoryGone, Told
from holdfast.coordinator.library import Library
from holdfast.coordinator.quarantine import CaseBook, Cursor, Patient, patients_after, patients_of
from holdfast.coordinator.quarantine_views import groups_of, wanted_pairs
from holdfast.core.fingerprints import UNTOLD
from holdfast.core.spec import JobSpec
from holdfast.testing.world import World
from holdfast.wire.quarantine import WantedCases, joined_counts, joined_groups

PLAIN = JobSpec(name="work", kind="function", target="shop:work", retries=0)


class Shelf:
    """The records of a world. `gone` are no longer in the log; `lost` are kept nowhere."""

    def __init__(self, world: World, gone: int = 0, lost: int = 0) -> None:
        self.read = 0
        self._told = {at: Told(at, 1, 0, record) for at, record in world.records()}
        self._gone, self._lost = gone, lost

    def told(self, position: int) -> Told:
        self.read += 1
        if position <= self._lost:
            raise HistoryGone(self._lost + 1)
        return self._told[position]

    def history(self, first: int, last: int) -> Iterator[Told]:
        if first <= self._gone:
            raise HistoryGone(self._gone + 1)
        for position in range(first, last + 1):
            self.read += 1
            yield self._told[position]

    def library(self) -> Library:
        return Library(self.told, self.history)


def sick(jobs: int = 2, tasks: int = 3) -> World:
    world = World()
    for number in range(1, jobs + 1):
        world.submit("", tasks, spec=PLAIN)
        for index, lease_id in enumerate(world.grant(str(number), *range(tasks))):
            world.fail(str(number), index, lease_id)
    return world


def all_of(world: World) -> list[Patient]:
    return [one for job in world.state.jobs.values() for one in patients_of(job)]


def test_an_end_is_read_once() -> None:
    world = sick()
    shelf, book = Shelf(world), CaseBook()
    first = book.cases(shelf.library(), all_of(world))
    before = shelf.read
    assert book.cases(shelf.library(), all_of(world)) == first
    assert shelf.read == before
    assert {case.error for case in first} == {"boom"}
    assert len({case.mark.mark for case in first}) == 1


def test_what_outlived_its_segment_is_told_too_and_what_did_not_is_said() -> None:
    world = sick()
    patients = all_of(world)
    whole = CaseBook().cases(Shelf(world).library(), patients)
    assert CaseBook().cases(Shelf(world, gone=len(world.log)).library(), patients) == whole
    last_lost = int(patients[1].end)
    cases = CaseBook().cases(Shelf(world, gone=len(world.log), lost=last_lost).library(), patients)
    assert [case.mark is UNTOLD for case in cases] == [True, True, False, False, False, False]


def test_memory_is_bounded_and_the_answer_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "REMEMBERED", 4)
    world = sick()
    book = CaseBook()
    for _ in range(3):
        assert len(book.cases(Shelf(world).library(), all_of(world))) == 6
        for one in all_of(world):
            (case,) = book.cases(Shelf(world).library(), (one,))
            assert case.error == "boom"


@pytest.mark.parametrize("most", [1, 2, 5, 100])
@pytest.mark.parametrize("looks", [1, 2, 100])
def test_slices_of_any_size_find_each_task_once(
    most: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "SLICE_JOBS", looks)
    world = sick(jobs=3)
    found: list[Patient] = []
    cursor: Cursor | None = None
    while True:
        jobs = [(int(job.position), job) for job in reversed(world.state.jobs.values())]
        part, cursor = patients_after(jobs, WantedCases(), cursor, most)
        assert len(part) <= most
        found += part
        if cursor is None:
            break
    assert [f"{one.job_id}/{one.index}" for one in found] == [
        f"{job}/{index}" for job in (3, 2, 1) for index in range(3)
    ]


def test_what_came_in_parts_is_put_together() -> None:
    part = {
        "fingerprint": "a", "count": 2, "jobs": 1, "names": ["x"], "first_at": "2", "last_at": "3",
        "sample": "1/0", "error": "old",
    }  # fmt: skip
    other = {**part, "count": 5, "names": ["y"], "first_at": "1", "last_at": "4", "sample": "2/0"}
    lone = {**part, "fingerprint": "b", "count": 1}
    whole = joined_groups([[dict(part), lone], [other]])
    assert [(group["fingerprint"], group["count"]) for group in whole] == [("a", 7), ("b", 1)]
    assert (whole[0]["first_at"], whole[0]["last_at"], whole[0]["sample"]) == ("1", "4", "2/0")
    assert whole[0]["names"] == ["x", "y"]
    counts = joined_counts([
        {"total": 1, "oldest_at": "2", "newest_at": "3", "by_reason": {"failed": 1}},
        {"total": 4, "oldest_at": None, "newest_at": None, "by_reason": {"oom": 3, "failed": 1}},
    ])  # fmt: skip
    assert counts == {
        "total": 5, "oldest_at": "2", "newest_at": "3", "by_reason": {"oom": 3, "failed": 2},
    }  # fmt: skip


def test_what_nobody_knows_the_age_of_is_never_old() -> None:
    """Or a purge by age would take what may have come there just now."""
    world = sick()
    shelf = Shelf(world, gone=len(world.log), lost=len(world.log))
    patients = all_of(world)
    pairs = list(zip(patients, CaseBook().cases(shelf.library(), patients), strict=True))
    old = WantedCases(older_than_ms=1)
    assert list(wanted_pairs(pairs, old, now=10**13)) == []
    (group,) = groups_of(wanted_pairs(pairs, WantedCases(reasons=frozenset({"unknown"})), 1))
    assert (group["count"], group["first_at"], group["last_at"]) == (6, None, None)
    assert joined_groups([[dict(group)], [dict(group)]])[0]["count"] == 12

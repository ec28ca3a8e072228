"""What is owed is found in the order it was promised, and by nobody before its time."""

from random import Random

import pytest

from holdfast.core import commands as c
from holdfast.core.debts import Debts, Place
from holdfast.core.freeze import freeze, thaw
from holdfast.core.ids import Index, Instant, JobId, LeaseId, WorkerId, parse_effect_name
from holdfast.core.invariants import check
from holdfast.core.owed import EFFECT, DebtName, Entry, Stored
from holdfast.core.reports import Done
from holdfast.testing.stages import JOB, stage_of
from holdfast.testing.world import MAIL, World

W = WorkerId("w")


def keyed(key: str, sink: str = "ledger") -> Entry:
    return Entry(EFFECT, sink, key, b"body")


def owing(*entries: Entry | tuple[Entry, ...], together: bool = False) -> World:
    """A job with a committed task for each of these, in this order or in one record."""
    owed = [entry if isinstance(entry, tuple) else (entry,) for entry in entries]
    world = World()
    world.submit(JOB, len(owed))
    leases = world.grant(JOB, *range(len(owed)))
    done = [
        Done(JOB, Index(index), LeaseId(lease), 0, b"", owed[index])
        for index, lease in enumerate(leases)
    ]
    if together:
        world.did(c.CommitTasks(worker=W, incarnation=1, done=tuple(done)))
    else:
        for each in done:
            world.did(c.CommitTasks(worker=W, incarnation=1, done=(each,)))
    return world


def name(index: int, number: int = 0) -> DebtName:
    return DebtName(JOB, Index(index), number)


def place(world: World, sink: str = "ledger") -> Place:
    return world.state.debts.places[(EFFECT, sink)]


def ready(world: World, sink: str = "ledger") -> list[int]:
    return [found.index for found in place(world, sink).ready]


def test_only_the_first_of_a_key_can_be_delivered() -> None:
    world = owing(keyed("ann"), keyed("bob"), keyed("ann"))
    assert ready(world) == [0, 1]
    world.confirm(JOB, 0, 0)
    assert ready(world) == [1, 2]


def test_what_was_settled_out_of_turn_is_passed_over() -> None:
    world = owing(keyed("ann"), keyed("ann"), keyed("ann"))
    world.confirm(JOB, 1, 0)
    world.confirm(JOB, 0, 0)
    assert ready(world) == [2]
    world.confirm(JOB, 2, 0)
    assert world.state.debts.places == {}


def test_those_of_one_record_come_by_name_however_they_were_reported(dice: Random) -> None:
    world = World()
    world.submit(JOB, 9)
    leases = world.grant(JOB, *range(9))
    done = [
        Done(JOB, Index(i), lease, 0, b"", (keyed("ann"),)) for i, lease in enumerate(leases)
    ]
    dice.shuffle(done)
    world.did(c.CommitTasks(worker=W, incarnation=1, done=tuple(done)))
    assert world.troubles() == ()
    for index in range(9):
        assert ready(world) == [index]
        world.confirm(JOB, index, 0)


def test_entries_without_a_key_do_not_wait_for_each_other() -> None:
    world = owing(MAIL, MAIL, MAIL)
    world.did(c.ParkEffects(names=(name(0),), error="nobody can"))
    assert ready(world, "mail") == [1, 2]
    assert (place(world, "mail").owed, place(world, "mail").parked) == (3, 1)
    world.did(c.RetryEffects(names=(name(0),)))
    assert ready(world, "mail") == [1, 2, 0]
    assert world.state.debts.parked == 0


def test_a_first_that_backs_off_holds_those_behind_it_until_its_time() -> None:
    world = owing(keyed("ann"), keyed("ann"))
    failed = c.FailDelivery(name=name(0), error="no", most_tries=9, delay_ms=1_000)
    world.did(failed)
    debts = world.state.debts
    assert (ready(world), debts.next_wake()) == ([], Instant(world.now + 1_000))
    debts.wake(Instant(world.now + 999))
    assert ready(world) == []
    debts.wake(Instant(world.now + 1_000))
    assert (ready(world), debts.next_wake()) == ([0], 0)


def test_an_alarm_of_what_was_sent_on_meanwhile_wakes_nobody() -> None:
    world = owing(keyed("ann"))
    world.did(c.FailDelivery(name=name(0), error="no", most_tries=9, delay_ms=1_000))
    world.did(c.ParkEffects(names=(name(0),), error="nobody can"))
    world.state.debts.wake(Instant(world.now + 10_000))
    assert ready(world) == []
    assert world.troubles() == ()


def test_what_is_in_hand_is_given_to_nobody_else_and_comes_back_first() -> None:
    world = owing(keyed("ann"), keyed("bob"), keyed("ann"), keyed("ann"))
    debts = world.state.debts
    head = place(world).ready[name(0)]
    behind = list(place(world).behind(head))
    assert [follower.name.index for follower in behind] == [2, 3]
    for each in (head, *behind):
        debts.take(each)
    assert ready(world) == [1]
    world.confirm(JOB, 0, 0)
    assert ready(world) == [1]
    assert world.troubles() == ()
    debts.put_back([name(2), name(3), name(0), name(99)])
    assert ready(world) == [2, 1]
    assert world.troubles() == ()


def test_those_behind_one_that_is_parked_do_not_go_along() -> None:
    world = owing(keyed("ann"), keyed("ann"), keyed("ann"))
    world.did(c.ParkEffects(names=(name(1),), error="nobody can"))
    assert list(place(world).behind(place(world).ready[name(0)])) == []


@pytest.mark.parametrize("together", [False, True])
def test_a_snapshot_has_the_same_lines(together: bool) -> None:
    world = owing(keyed("b"), keyed("a"), (keyed("a"), MAIL, keyed("b")), together=together)
    world.did(c.FailDelivery(name=name(0), error="no", most_tries=9, delay_ms=1_000))
    world.did(c.ParkEffects(names=(name(2, 1),), error="nobody can"))
    thawed = thaw(freeze(world.state)).debts

    def told(debts: Debts) -> object:
        return {
            where: (list(p.ready), {key: [o.name for o in line] for key, line in p.lines.items()})
            for where, p in sorted(debts.places.items())
        }

    assert told(thawed) == told(world.state.debts)


def test_a_long_line_is_worked_off_from_its_front() -> None:
    count = 300
    world = owing(*[keyed("ann")] * count, together=True)
    for index in range(count):
        assert ready(world) == [index]
        world.confirm(JOB, index, 0)
    assert check(world.state) == ()


def test_confirmations_of_one_batch_are_one_record_and_count_once() -> None:
    world = owing((MAIL, MAIL), MAIL)
    before = len(world.log)
    events = world.did(
        c.ConfirmDeliveries(names=(name(0), name(1), name(0), name(0, 1), name(1)))
    )
    assert [type(event).__name__ for event in events] == ["EffectsDelivered", "TasksDone"]
    assert len(world.log) == before + 1
    assert world.state.jobs[JOB].unfinished == 0


def test_a_stored_result_is_listed_until_its_job_is_forgotten() -> None:
    stage = stage_of("running")
    world, stored = stage.world, Stored(b"digest", 70_000)
    world.commit(JOB, 0, stage.lease_id, result=b"", owed=(MAIL,), stored=stored)
    world.submit("other")
    (lease,) = world.grant("other")
    world.commit("other", 0, lease, result=b"", stored=Stored(b"second", 80_000))
    assert [s.digest for s in world.state.stored_results()] == [b"digest", b"second"]
    assert [s.digest for s in thaw(freeze(world.state)).stored_results()] == [b"digest", b"second"]
    world.confirm(JOB, 0, 0)
    world.tick(keep_finished=0, keep_finished_ms=0)
    assert list(world.state.stored_results()) == []
    assert world.troubles() == ()


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("12/3.0", (JobId("12"), 3, 0)),
        ("a.b/3.10", (JobId("a.b"), 3, 10)),
        ("12/3", None),
        ("12.0", None),
        ("12/3.", None),
        ("12/3.x", None),
        ("12/3.²", None),
    ],
)
def test_an_entry_is_called_by_its_task_and_number(text: str, parsed: object) -> None:
    assert parse_effect_name(text) == parsed

"""Plans for random clusters, judged by brute force: whatever its shortcuts, these laws hold."""

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.ids import Instant
from holdfast.core.shape import Shape, shape_of
from holdfast.scheduler.fit import suits
from holdfast.scheduler.gangs import groups
from holdfast.scheduler.ledger import KEY, names_of
from holdfast.scheduler.outlook import Outlook
from holdfast.scheduler.plan import plan
from holdfast.scheduler.proposals import Plan
from holdfast.scheduler.seats import Seat
from holdfast.testing.clusters import a_busy_cluster, a_cluster, any_machine, any_wants
from holdfast.testing.floor import Floor
from holdfast.testing.judging import Look

seeds = st.integers(0, 1 << 32)

# --- what must hold -----------------------------------------------------------------------------


def nothing_is_given_out_twice_or_beyond_what_there_is(look: Look) -> None:
    given_out = [(p.job_id, index) for p in look.plan.picks for index in p.indices]
    given_out += [(g.job_id, member.index) for g in look.plan.gangs for member in g.members]
    assert len(given_out) == len(set(given_out))
    for worker, seat in look.after.items():
        shapes: dict[int, set[Shape]] = {}
        for task in look.floor.tasks_on(worker):
            shape = shape_of(look.floor.world.state.jobs[task.job_id])
            shapes.setdefault(task.slot, set()).add(shape)
            assert (worker, task.slot) not in look.floor.leaving or look.before[worker].slots[
                task.slot
            ].shape
        assert all(len(found) == 1 for found in shapes.values())
        free = seat.free
        assert min(free.cpus_milli, free.memory_bytes, free.gpus, *free.named.values(), 0) == 0
    for pick in look.plan.picks:
        slot = look.before[pick.worker].slots[pick.slot]
        assert look.before[pick.worker].is_listening
        assert not slot.leaving
        assert not slot.alone
        assert not (pick.alone and slot.load)
        assert look.after[pick.worker].slots[pick.slot].load <= max(slot.load, look.floor.length)


def bounds_hold(look: Look) -> None:
    jobs = look.floor.world.state.jobs
    for job in jobs.values():
        assert not job.spec.max_parallel or job.active <= job.spec.max_parallel
    before, after = (
        Counter(
            name
            for seat in seats.values()
            for slot in seat.slots
            if slot.shape is not None
            for name in names_of(slot.shape)
        )
        for seats in (look.before, look.after)
    )
    for name, cap in look.floor.caps.items():
        # A bound may be lowered under what runs; then nothing is added.
        assert after[name] <= max(cap, before[name])
    for name, amounts in look.floor.amounts.items():
        for resource, most in amounts.items():
            now = look.taken_by(look.after, name, resource)
            assert now <= max(most, look.taken_by(look.before, name, resource))
    own = {key: cap for job in jobs.values() for key, cap in shape_of(job).keys if cap}
    assert all(after[(KEY, key)] <= cap for key, cap in own.items())
    for name, count in look.started().items():
        assert count <= look.floor.tokens.get(name, count)


def gangs_are_whole(look: Look) -> None:
    for job in look.floor.world.state.jobs.values():
        placing = job.spec.placing
        if not placing.gang:
            continue
        where = look.floor.where(job.job_id)
        assert len(where) in (0, job.count)
        if placing.gang_by:
            machines = look.floor.machines
            assert len({machines[w].attributes[placing.gang_by] for w in where.values()}) <= 1


def nothing_waits_for_what_is_less_urgent(look: Look) -> None:
    """A task that waits would have no room either if nothing below its rank had been placed,
    save where something waits that goes before it and may have the room: of a higher rank, or of
    the same and another namespace, or of the same because it has waited for so long."""
    waiting = look.waiting()
    cluster = {rank: look.without(rank) for rank in {look.rank_of(job) for job, _ in waiting}}
    for job, index in waiting:
        before = [shape_of(other) for other in look.those_before(job)]
        open_to_it = [
            seat
            for seat in cluster[look.rank_of(job)].values()
            if not any(suits(seat, shape) for shape in before)
        ]
        assert not look.fits(job, index, open_to_it), (job.job_id, index)


def who_wants_all_is_not_kept_waiting_by_more_of_what_runs(look: Look) -> None:
    """Where as much waits as its workers could ever hold, no slot of theirs is filled up with
    what is less urgent."""
    waiting = look.waiting()
    counts = Counter(job.job_id for job, _ in waiting)
    for job in {job.job_id: job for job, _ in waiting}.values():
        shape = shape_of(job)
        suited = [seat for seat in look.after.values() if suits(seat, shape)]
        most = sum(seat.total.room(shape, len(seat.slots)) for seat in suited)
        is_limited = look.floor.caps or look.floor.amounts
        if shape.gang or job.spec.max_parallel or shape.keys or is_limited:
            continue
        if counts[job.job_id] < most or look.those_before(job) or look.floor.tokens:
            continue
        names = {seat.worker for seat in suited}
        for pick in look.plan.picks:
            is_more = look.before[pick.worker].slots[pick.slot].load > 0
            assert not (pick.worker in names and is_more and pick.rank < look.rank_of(job))


def evictions_are_allowed(look: Look) -> None:
    jobs = look.floor.world.state.jobs
    places = [(e.worker, e.slot) for e in look.plan.evictions]
    assert len(places) == len(set(places))
    for eviction in look.plan.evictions:
        slot = look.before[eviction.worker].slots[eviction.slot]
        assert jobs[eviction.job_id].spec.placing.preempts
        assert not slot.leaving
        assert slot.shape is not None
        assert slot.rank < jobs[eviction.job_id].spec.priority


def hurries_are_useful(look: Look) -> None:
    places = [(hurry.worker, hurry.slot) for hurry in look.plan.hurries]
    assert len(places) == len(set(places))
    ranks = [look.rank_of(job) for job, _ in look.waiting()]
    for worker, number in places:
        slot = look.before[worker].slots[number]
        assert slot.load > 1
        assert slot.rank < max(look.ranks.values())
    limited = look.floor.caps or look.floor.amounts or look.floor.tokens
    assert not places or ranks or limited


LAWS = (
    nothing_is_given_out_twice_or_beyond_what_there_is,
    bounds_hold,
    gangs_are_whole,
    nothing_waits_for_what_is_less_urgent,
    who_wants_all_is_not_kept_waiting_by_more_of_what_runs,
    evictions_are_allowed,
    hurries_are_useful,
)


def check_laws(seed: int) -> None:
    dice = Random(seed)
    look = Look(a_busy_cluster(dice, namespaces=dice.choice(("a", "ab"))))
    for law in LAWS:
        law(look)
    assert look.floor.world.troubles() == ()


@settings(max_examples=100)
@given(seeds)
def test_every_plan_keeps_the_laws(seed: int) -> None:
    check_laws(seed)


@pytest.mark.slow
@given(seeds)
def test_every_plan_of_very_many_keeps_the_laws(seed: int) -> None:
    check_laws(seed)


def told(made: Plan) -> tuple[Any, ...]:
    rows = sorted((row.priority, repr(row.shape)) for row in made.served)
    return made.picks, made.gangs, made.evictions, made.hurries, rows


def shuffled(outlook: Outlook, dice: Random) -> Outlook:
    """The same, with everything that has no order in another one."""
    for seat in outlook.seats:
        for mapping in (seat.attributes, seat.free.named, seat.total.named):
            entries = list(mapping.items())
            dice.shuffle(entries)
            mapping.clear()
            mapping.update(entries)
    dice.shuffle(outlook.seats)
    dice.shuffle(outlook.rows)
    return outlook


@settings(max_examples=40)
@given(seeds)
def test_a_plan_does_not_depend_on_the_order_in_which_things_are_given(seed: int) -> None:
    dice = Random(seed)
    floor = a_busy_cluster(dice)
    expected = told(plan(floor.outlook()))
    for _ in range(3):
        assert told(plan(shuffled(floor.outlook(), dice))) == expected


def parts(made: Plan) -> tuple[list[Any], ...]:
    return made.picks, made.gangs, made.evictions, made.hurries


@settings(max_examples=100)
@given(seeds)
def test_a_cut_plan_is_the_beginning_of_the_whole(seed: int) -> None:
    dice = Random(seed)
    floor = a_busy_cluster(dice)
    whole = floor.plan()
    floor.most_picks = dice.randint(1, 8)
    cut = floor.plan()
    given_out = len(cut.picks) + sum(len(gang.members) for gang in cut.gangs)
    for begun, full in zip(parts(cut), parts(whole), strict=True):
        assert full[: len(begun)] == begun
    if cut.is_cut:
        assert given_out >= floor.most_picks
    else:
        assert parts(cut) == parts(whole)
    if floor.length == 1 and not cut.gangs:
        assert given_out <= floor.most_picks


@settings(max_examples=40)
@given(seeds)
def test_cut_plans_come_to_an_end_and_the_last_keeps_the_laws(seed: int) -> None:
    dice = Random(seed)
    floor = a_busy_cluster(dice)
    floor.most_picks = dice.randint(1, 4)
    slots = sum(machine.slots for machine in floor.machines.values())
    for _ in range(slots * floor.length + 1):
        look = Look(floor)
        for law in (*LAWS[:3], evictions_are_allowed):
            law(look)
        if not look.plan.is_cut:
            break
    for law in LAWS:
        law(look)
    assert not look.plan.is_cut


@settings(max_examples=100)
@given(seeds)
def test_what_fits_on_an_idle_cluster_is_placed_there(seed: int) -> None:
    dice = Random(seed)
    floor = a_cluster(dice)
    floor.caps, floor.amounts, floor.tokens = {}, {}, {}
    wants = any_wants(dice) | {"keys": (), "max_parallel": 0}
    floor.length, count = 1, dice.randint(1, 9)
    floor.submit("j", count, **wants)
    shape = shape_of(floor.world.state.jobs["j"])
    able = [seat for seat in floor.seats() if seat.is_listening and suits(seat, shape)]

    def room(seats: Iterable[Seat]) -> int:
        return sum(seat.total.room(shape, len(seat.slots)) for seat in seats)

    floor.round()
    placed = len(floor.where("j"))
    if shape.gang:
        by = wants.get("gang_by", "")
        assert placed == (count if any(room(g) >= count for g in groups(able, by)) else 0)
    else:
        assert placed == min(count, room(able))


# --- over many rounds ---------------------------------------------------------------------------


@settings(max_examples=15)
@given(seeds)
def test_two_jobs_never_evict_each_other_and_evicting_comes_to_an_end(seed: int) -> None:
    """Jobs that never end on their own: every round only the more urgent gain, so that after as
    many rounds as there are priorities and slots nothing moves any more."""
    dice = Random(seed)
    floor = Floor(**{f"w{n}": any_machine(dice) for n in range(dice.randint(1, 4))})
    floor.aging.step_ms = dice.choice((0, 3_000))
    for number in range(dice.randint(2, 6)):
        wants = any_wants(dice) | {"preempts": dice.random() < 0.7, "priority": dice.randint(0, 4)}
        floor.submit(f"j{number}", dice.randint(1, 4), **wants)
    victims: set[tuple[str, str]] = set()
    last = 0
    for number in range(80):
        held = {
            (worker, task.slot): task.job_id for worker in floor.machines
            for task in floor.tasks_on(worker)
        }  # fmt: skip
        made = floor.round()
        for worker in floor.machines:
            floor.start(floor.tasks_on(worker))
        for eviction in made.evictions:
            victims.add((eviction.job_id, held[(eviction.worker, eviction.slot)]))
            last = number
        if dice.random() < 0.7:
            floor.let_go()
        floor.world.sleep(dice.choice((1, 500)))
    assert not any((victim, evictor) in victims for evictor, victim in victims)
    slots = sum(machine.slots for machine in floor.machines.values())
    assert last < 6 * (slots + 5)
    assert floor.world.now > Instant(0)

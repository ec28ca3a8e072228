"""Commands about schedules, thrown at a `World`."""

from random import Random

from holdfast.core import commands_schedules as s
from holdfast.core.command import Command
from holdfast.core.ids import NEVER, Instant, Position
from holdfast.core.schedule import SCHEDULED_AT, Definition, Schedule, Timing
from holdfast.core.spec import JobSpec
from holdfast.testing.world import World

NAMES = ("nightly", "hourly", "")


def set_schedule(world: World, dice: Random) -> Command:
    timing = dice.choice(
        (
            Timing(cron="0 3 * * *", zone="Europe/Berlin"),
            Timing(every_ms=5_000),
            Timing(every_ms=dice.choice((0, 1, -1, 10**30))),
        )
    )
    definition = Definition(
        timing=timing,
        spec=JobSpec(name="work", kind="function", target="work"),
        items=dice.choice(((b"item",), (b"one", SCHEDULED_AT.encode()), ())),
        missed=dice.choice(("skip", "one", "all", "some")),
        overlap=dice.choice(("allow", "skip", "replace", "replace", "")),
    )
    return s.SetSchedule(
        name=dice.choice(NAMES),
        definition=definition,
        next_wall=Instant(world.wall + dice.choice((1, 5_000, -(10**9)))),
        replace=dice.random() < 0.5,
        revision=Position(dice.choice((0, 0, 0, 1))),
    )


def remove_schedule(world: World, dice: Random) -> Command:
    return s.RemoveSchedule(name=dice.choice((*world.state.schedules, "nobody")))


def pause_schedule(world: World, dice: Random) -> Command:
    return s.PauseSchedule(name=_known(world, dice).name, reason=dice.choice(("", "holidays")))


def resume_schedule(world: World, dice: Random) -> Command:
    next_wall = Instant(world.wall + dice.choice((1, 5_000, -5_000)))
    return s.ResumeSchedule(name=_known(world, dice).name, next_wall=next_wall)


def fire_schedule(world: World, dice: Random) -> Command:
    schedule = _known(world, dice)
    at_wall = dice.choice((schedule.next_wall,) * 4 + (schedule.last_wall, world.wall))
    return s.FireSchedule(
        name=schedule.name,
        at_wall=at_wall,
        next_wall=_later(at_wall, dice),
        cause=dice.choice(("due", "due", "made_up", "by_hand", "backfill", "nonsense")),
        stamp=b"2026-03-29T01:00:00.000Z",
    )


def skip_instants(world: World, dice: Random) -> Command:
    schedule = _known(world, dice)
    first = dice.choice((schedule.next_wall, schedule.next_wall, schedule.last_wall))
    last = Instant(first + dice.choice((0, 5_000, -1)))
    return s.SkipInstants(
        name=schedule.name,
        from_wall=first,
        until_wall=last,
        count=dice.choice((1, 2, 0)),
        next_wall=_later(last, dice),
        why=dice.choice(("missed", "missed", "")),
    )


def backfill_schedule(world: World, dice: Random) -> Command:
    walls = sorted(dice.sample(range(1, 50), dice.choice((0, 1, 3))))
    if dice.random() < 0.1:
        walls.reverse()
    moments = tuple(s.Moment(Instant(wall * 1_000), b"stamp") for wall in walls)
    return s.BackfillSchedule(name=_known(world, dice).name, moments=moments)


def _known(world: World, dice: Random) -> Schedule:
    schedules = list(world.state.schedules.values())
    if schedules and dice.random() < 0.9:
        return dice.choice(schedules)
    timing = Timing(every_ms=5_000)
    definition = Definition(timing=timing, spec=JobSpec(name="", kind="", target=""))
    return Schedule(name="nobody", definition=definition, created_at=NEVER, updated_at=NEVER)


def _later(instant: Instant, dice: Random) -> Instant:
    if dice.random() < 0.05:
        return NEVER
    return Instant(instant + dice.choice((1, 5_000, 5_000, 5_000, 0)))

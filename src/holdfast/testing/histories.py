"""Histories to test with: records as a coordinator would have written them."""

from random import Random

from holdfast.core.events import EVENT_TYPES, Event
from holdfast.core.record import decode_record
from holdfast.testing.strategies import any_command, pass_time
from holdfast.testing.world import World

FIRST_EXTRA = 20


def a_history(count: int, dice: Random) -> World:
    """A world with at least `count` records in its log."""
    world = World()
    while len(world.log) < count:
        pass_time(world, dice)
        world.do(any_command(world, dice))
    return world


def records_of_every_type(count: int, dice: Random) -> list[bytes]:
    """At least `count + 20` records, among them every type of event there is.

    The first `count` follow each other as they were written. Rare events take thousands of
    commands to come about, so of the rest only those are taken that show a type for the first
    time: to whoever looks at bytes alone it makes no difference.
    """
    world = a_history(count + FIRST_EXTRA, dice)
    chosen = world.log[: count + FIRST_EXTRA]
    seen = _types(chosen)
    known = len(world.log)
    while len(seen) < len(EVENT_TYPES):
        pass_time(world, dice)
        world.do(any_command(world, dice))
        for record in world.log[known:]:
            fresh = _types([record]) - seen
            if fresh:
                chosen.append(record)
                seen |= fresh
        known = len(world.log)
    return chosen


def _types(records: list[bytes]) -> set[type[Event]]:
    return {type(event) for record in records for event in decode_record(record).events}

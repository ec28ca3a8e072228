"""Commands about declared resources, thrown at a `World`."""

from random import Random

from holdfast.core import commands_resources as r
from holdfast.core.command import Command
from holdfast.core.ids import Position
from holdfast.core.resource import SPEC_BYTES_MAX, ResourceKey
from holdfast.testing.world import World

KEYS = (("Runtime", "greeter"), ("Runtime", "other"), ("Kind", "greeter"), ("", "x"))

LABELS = ((), (), (("tier", "web"),), (("tier", "web"), ("team", "blue")))


def put(world: World, dice: Random) -> Command:
    kind, name = dice.choice(KEYS)
    spec = dice.choice((b"one", b"two", b"three", b"x" * (SPEC_BYTES_MAX + 1)))
    return r.PutResource(
        kind=kind, name=name, spec=spec, expects=_expects(world, (kind, name), dice),
        labels=dice.choice(LABELS), annotations=dice.choice(((), (), (("note", "x"),))),
    )  # fmt: skip


def put_status(world: World, dice: Random) -> Command:
    kind, name = _some(world, dice)
    status = dice.choice((b"", b"pending", b"available"))
    return r.PutResourceStatus(
        kind=kind, name=name, status=status, expects=_expects(world, (kind, name), dice)
    )


def set_finalizers(world: World, dice: Random) -> Command:
    kind, name = _some(world, dice)
    finalizers = dice.choice(((), (), ("cleanup",), ("cleanup", "other"), ("",)))
    return r.SetResourceFinalizers(
        kind=kind, name=name, finalizers=finalizers, expects=_expects(world, (kind, name), dice)
    )


def mark_deleted(world: World, dice: Random) -> Command:
    kind, name = _some(world, dice)
    return r.MarkResourceDeleted(
        kind=kind, name=name, expects=_expects(world, (kind, name), dice)
    )


def _some(world: World, dice: Random) -> ResourceKey:
    return dice.choice((*world.state.resources, *world.state.resources, KEYS[0]))


def _expects(world: World, key: ResourceKey, dice: Random) -> Position | None:
    known = world.state.resources.get(key)
    seen = Position(0) if known is None else known.version
    return dice.choice((None, None, seen, seen, Position(1), Position(0)))

"""Declared resources as whoever looks at a log sees them, at any moment of it."""

from pathlib import Path

from holdfast.coordinator.differing import changes
from holdfast.coordinator.inspect import Moment, open_folder
from holdfast.coordinator.projected import resource_rows
from holdfast.core import commands_resources as r
from holdfast.testing.folders import write_folder
from holdfast.testing.world import World

WHO = {"kind": "Runtime", "name": "greeter"}


def test_resources_are_told_as_they_were_at_every_moment(tmp_path: Path) -> None:
    world = World()
    world.did(r.PutResource(**WHO, spec=b"one"))
    world.did(r.SetResourceFinalizers(**WHO, finalizers=("cleanup",)))
    world.did(r.PutResourceStatus(**WHO, status=b"available"))
    then = world.state.position
    world.did(r.PutResource(**WHO, spec=b"three"))
    world.did(r.MarkResourceDeleted(**WHO))
    write_folder(tmp_path, world.log)
    before, after = open_folder(tmp_path, Moment(position=then)), open_folder(tmp_path)
    (row,) = resource_rows(before)
    assert row[:7] == ("Runtime", "greeter", 1, then, 3, 9, '["cleanup"]')
    assert row[8] is None
    (change,) = [each for each in changes(before, after) if each.table == "resources"]
    assert (change.name, change.change) == ("Runtime/greeter", "changed")
    assert change.fields["generation"] == (1, 2)
    assert change.fields["spec_bytes"] == (3, 5)
    assert list(change.fields) == ["generation", "version", "spec_bytes", "deleted_at"]

"""Staged files of dead attempts go when nobody can be owed them any more, and not before."""

import pytest

from holdfast.coordinator.leftovers import removable
from holdfast.core import commands as c
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.owed import BLOCK, FILE, DebtName, Entry
from holdfast.testing.world import World
from holdfast.wire.delivery import Origin

OWED = (Entry(FILE, "host:here", "/out", b"x"),)


@pytest.fixture
def world() -> World:
    world = World()
    world.submit("j", 1)
    return world


def may_go(world: World, lease: int, log: str = "", job: str = "j") -> bool:
    origin = Origin(log or world.state.log_id, JobId(job), Index(0), LeaseId(lease))
    return removable(world.state, [origin]) == (lease,)


def test_what_a_living_attempt_has_staged_stays(world: World) -> None:
    [lease] = world.grant("j", 0)
    assert not may_go(world, lease)
    world.start("j", 0, lease)
    assert not may_go(world, lease)


def test_what_is_owed_stays_until_it_is_settled(world: World) -> None:
    [lease] = world.grant("j", 0)
    world.commit("j", 0, lease, owed=OWED)
    assert not may_go(world, lease)
    world.did(c.ConfirmDeliveries(names=(DebtName(JobId("j"), Index(0), 0),)))
    assert may_go(world, lease)


def test_a_parked_block_keeps_no_file_of_its_task_lying(world: World) -> None:
    [lease] = world.grant("j", 0)
    world.commit("j", 0, lease, owed=(*OWED, Entry(BLOCK, "", "", b"")))
    block = DebtName(JobId("j"), Index(0), 1)
    world.did(c.ParkEffects(names=(block,), error="nobody runs it"))
    assert not may_go(world, lease)
    world.did(c.ConfirmDeliveries(names=(DebtName(JobId("j"), Index(0), 0),)))
    assert may_go(world, lease)


def test_what_a_failed_or_forgotten_attempt_has_staged_goes(world: World) -> None:
    [lease] = world.grant("j", 0)
    world.fail("j", 0, lease)
    assert may_go(world, lease)
    assert may_go(world, lease, job="unknown")


def test_another_log_is_not_ours_to_judge_and_nor_is_a_lease_nobody_was_given(
    world: World,
) -> None:
    [lease] = world.grant("j", 0)
    world.fail("j", 0, lease)
    assert not may_go(world, lease, log="another")
    assert not may_go(world, lease + 1)

"""FM-007, the poison task: it kills whatever runs it, and is given to the next.

One test lets no budget ever be spent and sees it kill for ever; the others see where it ends, and
that nothing it promised on the way happens.
"""

import pytest

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decide import endings
from holdfast.core.ids import Index, JobId, WorkerId
from holdfast.core.spec import JobSpec
from holdfast.core.task import TaskState
from holdfast.testing.world import MAIL, World

MANY = 100
SPEC = JobSpec(name="poison", kind="function", target="poison", max_losses=3)


def deaths(world: World) -> int:
    """How many workers it kills before anybody stops it, or all there are."""
    world.submit("j", spec=SPEC)
    for count in range(MANY):
        world.sleep(600_000)
        worker = f"w{count}"
        leases = world.grant("j", worker=worker)
        if not leases:
            return count
        world.start("j", 0, leases[0], worker=worker)
        world.do(c.LoseWorker(worker=WorkerId(worker), incarnation=1, error="it died"))
    return MANY


def test_fm_007_a_budget_that_is_never_spent_lets_it_kill_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endings, "is_spent", lambda spec, end: False)
    assert deaths(World()) == MANY


def test_fm_007_the_last_loss_of_its_budget_puts_it_aside() -> None:
    world = World()
    assert deaths(world) == SPEC.max_losses + 1
    job = world.state.jobs[JobId("j")]
    assert TaskState(job.states[0]) is TaskState.QUARANTINED
    assert world.leasable() == {}
    assert world.troubles() == ()


def test_fm_007_what_it_promised_before_it_died_happens_never() -> None:
    world = World()
    deaths(world)
    # A report of an attempt that was thought dead, with all its promises, comes out of nowhere.
    for lease_id in range(1, SPEC.max_losses + 2):
        world.commit("j", 0, lease_id, worker=f"w{lease_id - 1}", owed=(MAIL,))
    committed = [
        event
        for _, record in world.records()
        for event in record.events
        if isinstance(event, e.TaskCommitted | e.TasksCompleted)
    ]
    assert committed == []
    assert len(world.state.debts) == 0


def test_fm_007_its_neighbours_are_not_charged() -> None:
    world = World()
    world.submit("j", count=2, spec=SPEC)
    leases = world.grant("j", 0, 1)
    world.start("j", 0, leases[0])
    world.do(c.LoseWorker(worker=WorkerId("w"), incarnation=1, error="it died"))
    tasks = world.state.jobs[JobId("j")].tasks or {}
    assert [tasks[Index(n)].losses for n in range(2)] == [1, 0]

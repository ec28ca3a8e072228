"""A person who comes by now and then, for what waits for one: parked effects, cordons, and queues
that are paused though nobody is there who wanted it.

Such a pause is a late copy of one that changed nothing when it was asked for: that is in no log,
and a server that was started since takes it for a new one.
"""

from holdfast.core import commands as c
from holdfast.core.owed import BLOCK
from holdfast.testing.sim.server import Server


def look_after(server: Server, *, is_alone: bool) -> None:
    """`is_alone`: everybody else has gone."""
    coordinator = server.coordinator
    if coordinator.failure is not None:
        return
    state = coordinator.state
    parked = [owing for owing in state.debts if owing.debt.parked]
    names = tuple(owing.name for owing in parked if owing.debt.kind != BLOCK)
    if names:
        coordinator.execute(c.RetryEffects(names=names), actor="operator")
    for worker in list(state.cordoned):
        coordinator.execute(c.UncordonWorker(worker=worker), actor="operator")
    for queue in list(state.paused) if is_alone else ():
        coordinator.execute(c.ResumeQueue(queue=queue), actor="operator")
    server.engine.soon()

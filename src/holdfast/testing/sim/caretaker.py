"""A person who comes by now and then, for what waits for one: parked effects and cordons."""

from holdfast.core import commands as c
from holdfast.core.owed import BLOCK
from holdfast.testing.sim.server import Server


def look_after(server: Server) -> None:
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
    server.engine.soon()

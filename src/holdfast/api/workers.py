"""Workers as far as they are known, and the leases they hold."""

from heapq import nsmallest
from typing import Final

import msgspec

from holdfast.api.call import Answer, Call
from holdfast.api.paging import MOST, USUAL, page
from holdfast.api.problems import Declined
from holdfast.coordinator.crewviews import held_by, lease_view
from holdfast.coordinator.seats import Worker
from holdfast.coordinator.views import View, rfc3339
from holdfast.core import commands as c
from holdfast.core.ids import WorkerId
from holdfast.core.state import State
from holdfast.wire.bodies import Reason

SILENT: Final = "SILENT"
GONE: Final = "GONE"


async def list_workers(call: Call) -> Answer:
    """The workers that exchange, and those that still hold something from before."""

    def look(state: State) -> list[View]:
        holding = {key[0] for key, holder in state.holders.items() if holder.leases}
        names = holding | set(call.service.served.exchanges.workers)
        return [_view(call, state, name) for name in sorted(names | set(state.cordoned))]

    return Answer({"schema": 1, "workers": await call.look(look)})


async def show(call: Call) -> Answer:
    """One worker with the leases it holds."""
    name = WorkerId(call.path["name"])

    def look(state: State) -> View:
        leases = held_by(state, name)
        known = name in call.service.served.exchanges.workers or name in state.cordoned
        if not known and not leases:
            raise Declined("not_found", f"no worker {name} has been heard of")
        shown = [lease_view(task, call.service.wall) for task in leases[:MOST]]
        return {**_view(call, state, name), "leases": shown}

    return Answer(await call.look(look))


async def cordon(call: Call) -> Answer:
    """Give nothing more to workers of this name; what they hold goes on."""
    body: Reason = call.body
    name = WorkerId(call.path["name"])
    await call.execute(
        c.CordonWorker(worker=name, reason=body.reason, **call.keying()), reason=body.reason
    )
    return Answer({})


async def uncordon(call: Call) -> Answer:
    """Give work to workers of this name again."""
    body: Reason = call.body
    name = WorkerId(call.path["name"])
    await call.execute(c.UncordonWorker(worker=name, **call.keying()), reason=body.reason)
    await call.ask(lambda _: call.service.served.undrain_worker(name))
    return Answer({})


async def drain(call: Call) -> Answer:
    """Cordon a worker, tell it to take nothing more, and ask back what it has not started; what
    runs is finished."""
    body: Reason = call.body
    name = WorkerId(call.path["name"])
    reason = body.reason or "drained"
    if not await call.look(lambda state: name in state.cordoned):
        cordon = c.CordonWorker(worker=name, reason=reason, **call.keying())
        await call.execute(cordon, reason=reason)
    asked = await call.ask(lambda _: call.service.served.drain_worker(name))
    left = await call.look(lambda state: len(held_by(state, name)))
    return Answer({"recalled": asked, "left": left})


async def leases(call: Call) -> Answer:
    """Who holds what, and until when; in the order it was granted."""
    limit = max(1, call.number("limit", USUAL, most=MOST))
    after = call.number("cursor", 0, most=2**62)

    def look(state: State) -> View:
        later = (
            task
            for holder in state.holders.values()
            for task in holder.leases.values()
            if task.lease_id > after
        )
        found = nsmallest(limit + 1, later, key=lambda task: task.lease_id)
        views = [lease_view(task, call.service.wall) for task in found[:limit]]
        more = views[-1]["lease_id"] if len(found) > limit else None
        return page("leases", views, more)

    return Answer(await call.look(look))


def _view(call: Call, state: State, name: WorkerId) -> View:
    seat = call.service.served.exchanges.workers.get(name)
    held = len(held_by(state, name))
    cordoned = name in state.cordoned
    view: View = {
        "name": name,
        "state": SILENT,
        "cordoned": cordoned,
        "reason": state.cordoned.get(name) or None,
        "incarnation": None,
        "leases": held,
    }
    if seat is None:
        return view
    registry = call.service.served.exchanges.registry
    known: View = {}
    if seat.hello is not None:
        known = msgspec.structs.asdict(seat.hello)
        known["attributes"] = dict(seat.hello.attributes)
        del known["lock"]
    return {
        **view,
        **known,
        "state": _state(seat, cordoned=cordoned, held=held, alive=registry.is_alive(seat)),
        "incarnation": seat.incarnation,
        "since": rfc3339(call.service.wall(seat.since)),
        "seen_at": rfc3339(call.service.wall(seat.seen_at)),
        "missed_renewals": registry.missed(seat) if seat.send is None else 0,
        "slots": seat.capacity.slots,
        "occupied": _occupied(seat, state),
        "lingering": len(seat.lingering),
        "cpus": seat.capacity.cpus_milli / 1_000,
        "memory_bytes": seat.capacity.memory_bytes,
        "gpus": seat.capacity.gpus,
        "resources": {name: amount / 1_000 for name, amount in seat.capacity.resources},
    }


def _occupied(worker: Worker, state: State) -> int:
    """The slots that something runs or waits in; all of them, where nobody can say."""
    held = worker.held_slots(state)
    return worker.capacity.slots if held is None else len(held)


def _state(seat: Worker, *, cordoned: bool, held: int, alive: bool) -> str:
    if not alive:
        return GONE if seat.has_left else SILENT
    if seat.draining:
        return "DRAINING" if held or not cordoned else "DRAINED"
    if cordoned:
        return "CORDONED"
    return "BUSY" if held else "IDLE"

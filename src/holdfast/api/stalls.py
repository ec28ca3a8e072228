"""What hangs: a list of it, and what operators decide about it."""

from msgspec import to_builtins

from holdfast.api.call import Answer, Call
from holdfast.api.paging import MOST, USUAL, page
from holdfast.api.problems import Declined
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.stall_views import stall_view
from holdfast.coordinator.stalls import Outcome
from holdfast.coordinator.views import View
from holdfast.scheduler.stalls import MEANINGS
from holdfast.wire.bodies import ChosenStalls


async def list_stalls(call: Call) -> Answer:
    """What hangs, the oldest first."""
    kind = call.one("kind")
    if kind not in ("", *MEANINGS):
        raise Declined("invalid", f"kind={kind[:40]!r} is none of {', '.join(MEANINGS)}")
    limit = max(1, call.number("limit", USUAL, most=MOST))
    first = call.number("cursor", 0, most=2**31)
    stalls = call.service.served.stalls

    def look(coordinator: Coordinator) -> tuple[list[View], int]:
        found = [stall for stall in stalls.current() if kind in ("", stall.kind)]
        shown = found[first : first + limit]
        now = coordinator.now()
        return [stall_view(stall, now, call.service.wall) for stall in shown], len(found)

    views, count = await call.ask(look)
    return Answer(page("stalls", views, first + limit if first + limit < count else None))


async def approve(call: Call) -> Answer:
    """End attempts that hang, within their budgets. What has moved on is left alone."""
    body: ChosenStalls = call.body
    if bool(body.ids) == body.every:
        raise Declined("invalid", "name what hangs by `ids`, or all of it by `every`")
    if len(body.ids) > MOST:
        raise Declined("too_large", f"at most {MOST} stalls at a time")
    stalls, actor = call.service.served.stalls, call.identity.actor

    def ask(_: Coordinator) -> list[Outcome]:
        chosen = body.ids
        if body.every:
            chosen = [stall.id for stall in stalls.current() if stall.lease_id]
        return stalls.approve(chosen, actor=actor, reason=body.reason)

    return Answer({"schema": 1, "stalls": to_builtins(await call.ask(ask))})

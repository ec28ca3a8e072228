"""What commits owe: a page of it, one entry with its tries, and what operators decide about it."""

import asyncio
from functools import partial
from typing import Any, Final

from holdfast.api.call import Answer, Call, Done, job_of
from holdfast.api.paging import MOST, USUAL, page
from holdfast.api.problems import Declined
from holdfast.api.tasks import past_of
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.effects import (
    ORDER_MOST,
    LogAt,
    Unclear,
    chosen_by,
    chosen_views,
    effect_detail,
    effect_view,
    named,
)
from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.past import copied
from holdfast.coordinator.views import View
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.command import Command
from holdfast.core.debts import Order
from holdfast.core.decision import Decision
from holdfast.core.ids import Position, effect_name, parse_effect_name
from holdfast.core.job import Job
from holdfast.core.owed import KINDS
from holdfast.wire.bodies import ChosenEffects
from holdfast.wire.wanted import EFFECT_STATES, WantedEffects, effect_states

SLICE: Final = 2_000
SLICES: Final = 200
"""So many entries are looked at without letting others have their turn, and so many turns are taken
for one page. It may end early; `next` says where to go on."""

async def list_effects(call: Call) -> Answer:
    """What commits owe, in the order of the commits."""
    wanted = _wanted(call)
    limit = max(1, call.number("limit", USUAL, most=MOST))
    order = _place(call.one("cursor"))
    views: list[View] = []
    for _ in range(SLICES):
        part = partial(_some, call, wanted, order, limit - len(views))
        found, order = await call.ask(part)
        views += found
        if order is None or len(views) >= limit:
            break
    return Answer(page("effects", views, None if order is None else _cursor(order)))


def _some(
    call: Call, wanted: WantedEffects, order: Order | None, room: int, coordinator: Coordinator
) -> tuple[list[View], Order | None]:
    views: list[View] = []
    debts = coordinator.state.debts
    stands = call.service.served.exchanges.deliveries.standings()
    last = order
    for looks, owing in enumerate(call.service.owed.after(debts, order)):
        if looks >= SLICE or len(views) >= room:
            return views, last
        last = owing.order
        views += chosen_views((owing,), wanted, stands, call.service.wall)
    return views, None


def _wanted(call: Call) -> WantedEffects:
    told = ",".join(call.query.get("state", []))
    states = [name.strip().upper() for name in told.split(",") if name.strip()]
    for name in states:
        if name not in EFFECT_STATES:
            raise Declined("invalid", f"state={name[:40]!r} is none of {', '.join(EFFECT_STATES)}")
    kind = call.one("kind")
    if kind not in ("", *KINDS):
        raise Declined("invalid", f"kind={kind[:40]!r} is none of {', '.join(KINDS)}")
    return WantedEffects(
        states=effect_states(states), sink=call.one("sink"), job=call.one("job"), kind=kind
    )


def _cursor(order: Order) -> str:
    position, job_id, index, number = order
    return f"{position}/{effect_name(job_id, index, number)}"


def _place(cursor: str) -> Order | None:
    if not cursor:
        return None
    position, _, name = cursor.partition("/")
    parsed = parse_effect_name(name)
    if parsed is None or not (position.isascii() and position.isdigit()):
        raise Declined("invalid", f"cursor={cursor[:40]!r} is none that a page ended with")
    return (Position(int(position)), *parsed)


async def show(call: Call) -> Answer:
    """One entry with its body, its idempotency key and every try."""
    text = f"{call.path['job']}/{call.path['entry']}"
    try:
        name = named(text)
    except Unclear as error:
        raise Declined("not_found", str(error)) from None
    unknown = Declined("not_found", f"no commit of {text.rpartition('.')[0]} owes or owed {text}")

    def look(coordinator: Coordinator) -> tuple[Job, View | None, Position, LogAt]:
        state = coordinator.state
        job = job_of(state, name.job_id)
        if name.index >= job.count:
            raise unknown
        owing, view = state.debts.find(name), None
        if owing is not None:
            stands = call.service.served.exchanges.deliveries.standings()
            view = effect_view(owing, stands(owing), call.service.wall)
        return copied(job, name.index), view, state.position, state.log_at

    job, view, last, log_at = await call.ask(look)
    past = past_of(call, job)
    try:
        # Its body and its tries are in the log, and the loop waits for no disk.
        detail = await asyncio.to_thread(effect_detail, past, log_at, job, name, view, last)
    except HistoryGone as gone:
        raise Declined("gone", str(gone)) from None
    if detail is None:
        raise unknown
    return Answer({"schema": 1, **detail})


async def retry(call: Call) -> Answer:
    """Have entries tried again at once, each with a fresh budget."""
    return await _settle(call, retries=True)


async def discard(call: Call) -> Answer:
    """Give entries up, for a reason: they are owed no more."""
    body: ChosenEffects = call.body
    if not body.reason.strip():
        raise Declined("invalid", "say why they are given up: `reason` is recorded")
    return await _settle(call, retries=False)


async def _settle(call: Call, *, retries: bool) -> Answer:
    """Chosen and judged in one step: nothing comes between."""
    body: ChosenEffects = call.body
    if len(body.ids) > ORDER_MOST:
        raise Declined("too_large", f"at most {ORDER_MOST} effects at a time")
    left = 0

    def ask(coordinator: Coordinator) -> Decision:
        nonlocal left
        try:
            chosen = chosen_by(coordinator.state.debts, body, retries=retries)
        except Unclear as error:
            raise Declined("invalid", str(error)) from None
        left = chosen.left
        words: dict[str, Any] = {"names": chosen.names, **call.keying()}
        command: Command = c.RetryEffects(**words)
        if not retries:
            command = c.DiscardEffects(reason=body.reason, **words)
        return call.decide(coordinator, command, reason=body.reason)

    done = await call.found(await call.ask(ask))
    return Answer({"schema": 1, "retried" if retries else "discarded": _count(done), "left": left})


def _count(done: Done) -> int:
    kinds = (e.EffectsRetried, e.EffectsDiscarded)
    return sum(len(event.settled) for event in done.events if isinstance(event, kinds))

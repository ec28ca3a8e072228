"""What was asked, by whom, and all that followed, as the log has it."""

import asyncio
from operator import itemgetter
from typing import Any, Final

import msgspec

from holdfast.api.call import Answer, Call
from holdfast.coordinator.inspect import Told
from holdfast.coordinator.views import rfc3339
from holdfast.core.transactions import Action, to_json, transaction_of

USUAL: Final = 100
MOST: Final = 1_000


async def list_transactions(call: Call) -> Answer:
    """The newest transactions, the newest last."""
    limit = max(1, call.number("limit", USUAL, most=MOST))
    served = call.service.served
    last, notices = await call.ask(lambda k: (int(k.state.position), list(k.notices)))

    def read() -> list[dict[str, Any]]:
        first = max(served.log.oldest, last - limit + 1)
        return list(map(view, served.history(first, last)))

    views = await asyncio.to_thread(read)
    since = views[0]["time"] if views else ""
    told = [notice_view(action, rfc3339(call.service.wall(at))) for at, action in notices]
    together = views + [each for each in told if each["time"] >= since]
    together.sort(key=itemgetter("time"))
    return Answer({"schema": 1, "transactions": together[-limit:]})


def notice_view(action: Action, time: str) -> dict[str, Any]:
    """Something that happened and needed no record: it has no position, and a restart forgets
    it."""
    return {
        "position": None,
        "time": time,
        "command": "",
        "actor": action.entity,
        "request_id": "",
        "reason": "",
        "events": [],
        "actions": [msgspec.structs.asdict(action)],
    }


def view(told: Told) -> dict[str, Any]:
    """One transaction as JSON has it; its time is that of the wall clock."""
    transaction = transaction_of(told.record, told.position)
    return {**to_json(transaction), "time": rfc3339(told.wall(transaction.time))}

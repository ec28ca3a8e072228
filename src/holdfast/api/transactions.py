"""What was asked, by whom, and all that followed, as the log has it."""

import asyncio
from typing import Any, Final

from holdfast.api.call import Answer, Call
from holdfast.coordinator.inspect import Told
from holdfast.coordinator.views import rfc3339
from holdfast.core.transactions import to_json, transaction_of

USUAL: Final = 100
MOST: Final = 1_000


async def list_transactions(call: Call) -> Answer:
    """The newest transactions, the newest last."""
    limit = max(1, call.number("limit", USUAL, most=MOST))
    last = int(await call.look(lambda state: state.position))
    served = call.service.served

    def read() -> list[dict[str, Any]]:
        first = max(served.log.oldest, last - limit + 1)
        return list(map(view, served.history(first, last)))

    return Answer({"schema": 1, "transactions": await asyncio.to_thread(read)})


def view(told: Told) -> dict[str, Any]:
    """One transaction as JSON has it; its time is that of the wall clock."""
    transaction = transaction_of(told.record, told.position)
    return {**to_json(transaction), "time": rfc3339(told.wall(transaction.time))}

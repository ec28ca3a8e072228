"""The exchange over HTTP: arrays between programs, named fields for a person with curl."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import astuple

from holdfast.api.call import Answer, Call
from holdfast.api.problems import Declined
from holdfast.api.results import check_results
from holdfast.coordinator.serving import Left, Superseded
from holdfast.wire.exchange import Exchange, Lingering, is_empty

PARK_S: Final = 20.0
LEAVING_PARK_S: Final = 0.5
NAME_MAX: Final = 200
LARGEST: Final = 2**53
MOST_SLOTS: Final = 10_000
MOST_WORKERS: Final = 50_000


async def exchange(call: Call) -> Answer:
    """What a worker says happened, and what it is told to do next. Parks when there is nothing."""
    message: Exchange = call.body
    _check(call, message)
    check_results(call, message)
    # Who leaves takes reports still, and keeps nobody waiting for long.
    park_s = LEAVING_PARK_S if call.service.leaving.is_set() else PARK_S
    # What reports something is answered as soon as that is durable; only who may be parked can
    # leave meanwhile.
    gone = call.gone if is_empty(message) else None
    try:
        return Answer(await call.service.served.exchange(message, park_s, gone))
    except Superseded as error:
        raise Declined("conflict", str(error)) from error
    except Left as error:
        raise Declined("not_ready", str(error)) from error


def _amounts(attempt: Lingering) -> Iterator[int]:
    *numbers, resources = astuple(attempt)
    yield from numbers
    yield from (amount for _, amount in resources)


def _check(call: Call, message: Exchange) -> None:
    """A worker is a stranger: what it says must not be more than the log can hold, nor keep the
    others waiting."""
    name = message.worker
    if not 0 < len(name) <= NAME_MAX or not name.isprintable():
        raise Declined("invalid", "a worker has a name")
    if not call.identity.speaks_for(name):
        raise Declined("forbidden", f"this token is for the worker {call.identity.worker!r}")
    offered = message.capacity
    if not 0 <= offered.slots <= MOST_SLOTS:
        raise Declined("invalid", f"a worker has at most {MOST_SLOTS} slots")
    amounts = (
        message.incarnation,
        message.number,
        message.seen,
        message.occupied,
        offered.cpus_milli,
        offered.memory_bytes,
        offered.gpus,
        *(amount for attempt in message.lingering for amount in _amounts(attempt)),
    )
    codes = [failed.exit_code or 0 for failed in message.failed]
    if not all(0 <= amount <= LARGEST for amount in amounts) or not all(
        abs(code) <= LARGEST for code in codes
    ):
        raise Declined("invalid", "a number here is negative, or larger than anything is")
    known = call.service.served.exchanges.workers
    if name not in known and len(known) >= MOST_WORKERS:
        raise Declined("queue_full", "too many workers are known", headers={"retry-after": "60"})

"""The exchange over HTTP: arrays between programs, named fields for a person with curl."""

from typing import Final

from msgspec.structs import astuple

from holdfast.api import asked
from holdfast.api.call import Answer, Answered, Call
from holdfast.api.problems import Declined
from holdfast.api.results import check_results
from holdfast.coordinator import reception
from holdfast.coordinator.promise import Promise
from holdfast.coordinator.reception import Superseded
from holdfast.wire.exchange import Exchange, Reply, is_empty
from holdfast.wire.servicing import partitions_problem, servicing_problem

PARK_S: Final = 20.0
LEAVING_PARK_S: Final = 0.5
NAME_MAX: Final = 200
LARGEST: Final = 2**53
MOST_SLOTS: Final = 10_000
MOST_WORKERS: Final = 50_000


def exchange(call: Call) -> Promise[Answered]:
    """What a worker says happened, and what it is told to do next. Parks when there is nothing."""
    message: Exchange = call.body
    _check(call, message)
    check_results(call, message)
    # Who leaves takes reports still, and keeps nobody waiting for long.
    park_s = LEAVING_PARK_S if call.service.leaving.is_set() else PARK_S
    served = call.service.served
    answer: Promise[Answered] = Promise()
    try:
        served.exchange(message, park_s, lambda reply: answer.keep(_told(reply)))
    except Superseded as error:
        raise Declined("conflict", str(error)) from error
    # What reports something is answered as soon as that is durable; only who may be parked can
    # leave meanwhile.
    if is_empty(message):
        call.when_left(lambda: served.forsake(message))
    return answer


def _told(reply: Reply | Exception) -> Answer | Exception:
    if isinstance(reply, Superseded):
        return Declined("conflict", str(reply))
    if isinstance(reply, reception.Left):
        return asked.Left()
    return reply if isinstance(reply, Exception) else Answer(reply)


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
    amounts: tuple[int, ...] = (
        message.incarnation,
        message.number,
        message.seen,
        message.occupied,
        offered.cpus_milli,
        offered.memory_bytes,
        offered.gpus,
    )
    if message.lingering or message.failed or message.progress:
        for attempt in message.lingering:
            *plain, named, _ = astuple(attempt)
            amounts += (*plain, *(amount for _, amount in named))
        amounts += tuple(abs(failed.exit_code or 0) for failed in message.failed)
        amounts += tuple(amount for told in message.progress for amount in (told.done, told.total))
    if min(amounts) < 0 or max(amounts) > LARGEST:
        raise Declined("invalid", "a number here is negative, or larger than anything is")
    problem = servicing_problem(message.services, message.samples)
    problem = problem or partitions_problem(message.partitions)
    if problem:
        raise Declined("invalid", problem)
    known = call.service.served.exchanges.workers
    if name not in known and len(known) >= MOST_WORKERS:
        raise Declined("queue_full", "too many workers are known", headers={"retry-after": "60"})

"""Results: large ones brought by workers before their commits, and any read by whoever asks."""

import asyncio
from typing import BinaryIO, Final

from holdfast.api.call import Answer, Call, Raw, Stream, job_of, nothing
from holdfast.api.contents import BYTES, digest_in, pieces, take_in
from holdfast.api.outcomes import Ending, ends_of, outcomes_in
from holdfast.api.problems import Declined
from holdfast.api.tasks import index_of
from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.serving import Served
from holdfast.core.ids import JobId
from holdfast.core.owed import Stored
from holdfast.core.task import TaskState
from holdfast.wire.bodies import Outcome
from holdfast.wire.contents import DIGEST_BYTES
from holdfast.wire.errors import ResultLost
from holdfast.wire.exchange import NOT_STORED, Done, Exchange

WELL: Final = (TaskState.COMMITTED, TaskState.SUCCEEDED)


async def put(call: Call) -> Answer:
    """Bring a result that is too large for a record. It is known by its digest."""
    return await take_in(call, call.service.served.results)


async def look(call: Call) -> Stream:
    """Whether a large result is here. Asking keeps it for another hour."""
    digest = digest_in(call)
    size = call.service.served.results.ask_for(digest)
    if size is None:
        raise Declined("not_found", f"there is no result {digest}")
    return Stream(BYTES, nothing(), (("content-length", str(size)),))


async def get(call: Call) -> Raw | Stream:
    """The result of a task, in the very bytes its worker made: msgpack, unless it is pickled."""
    index, job_id = index_of(call), JobId(call.path["job"])
    [end] = await call.look(lambda state: ends_of(job_of(state, job_id), [index]))
    outcome = await asyncio.to_thread(_read, call.service.served, job_id, end)
    if outcome.result_digest:
        return await _stored(call, _stored_of(outcome))
    if outcome.result is None:
        # One that ended well had a result: what tells it is no longer kept.
        code = "gone" if end.state in WELL else "conflict"
        why = f": {outcome.error}" if outcome.error else ""
        raise Declined(code, f"task {job_id}/{index} is {outcome.state}, without a result{why}")
    return Raw(outcome.result)


def _read(served: Served, job_id: JobId, end: Ending) -> Outcome:
    try:
        record = served.told(end.position).record if end.position else None
    except HistoryGone:
        record = None
    return outcomes_in(record, job_id, [end])[0]


async def _stored(call: Call, stored: Stored) -> Stream:
    """Every byte is compared before the first one leaves: half an answer is hard to understand."""
    contents = call.service.served.results.contents

    def opened() -> BinaryIO:
        contents.check(stored)
        return open(contents.path_of(stored.digest.hex()), "rb")

    try:
        content = await asyncio.to_thread(opened)
    except (ResultLost, OSError) as error:
        raise Declined("damaged", str(error)) from error
    told = (("content-length", str(stored.size)), ("etag", f'"{stored.digest.hex()}"'))
    return Stream(BYTES, pieces(content), told)


def check_results(call: Call, message: Exchange) -> None:
    """A commit may refer only to a result that is here. Looked at on the loop's thread, together
    with the decision about the commit, so it cannot be removed between."""
    for report in message.done:
        if report.stored is not None:
            _check(call, report, report.stored)


def _check(call: Call, report: Done, stored: Stored) -> None:
    if len(stored.digest) != DIGEST_BYTES or report.result or stored.size < 0:
        raise Declined("invalid", "a result is here or in the store, under a digest of 32 bytes")
    if not call.service.served.results.has(stored):
        digest = stored.digest.hex()
        raise Declined(
            NOT_STORED,
            f"the result of task {report.job_id}/{report.index} is not in the store; "
            f"PUT /api/v1/results/{digest} brings it",
        )


def _stored_of(outcome: Outcome) -> Stored:
    return Stored(bytes.fromhex(outcome.result_digest), outcome.result_bytes)

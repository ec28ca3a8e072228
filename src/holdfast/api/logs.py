"""The output of attempts: brought by the workers that hold them, read and followed by people."""

import asyncio
import time
from typing import Final

from msgspec import structs

from holdfast.api.call import Answer, Answered, Call, Raw, job_of
from holdfast.api.negotiation import wants_msgpack
from holdfast.api.problems import Declined, understood
from holdfast.api.route import Route
from holdfast.api.service import Service
from holdfast.api.waiting import until_any
from holdfast.coordinator.lines import say
from holdfast.coordinator.output import Gap, OutputGone
from holdfast.coordinator.outputdesk import OutputBusy
from holdfast.coordinator.outputparts import STREAMS, StreamName, is_safe
from holdfast.coordinator.tenants import is_live
from holdfast.coordinator.views import attempts_made
from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.job import state_of
from holdfast.core.state import State
from holdfast.core.task import TaskState
from holdfast.wire.amounts import duration_ms
from holdfast.wire.output import Chunk, Chunks, Kept, Output, Receipt

CHUNK_BYTES: Final = 2 * 1024 * 1024
CHUNKS_MOST: Final = 256
READ_USUAL: Final = 256 * 1024
READ_MOST: Final = 1024 * 1024
LONGEST_WAIT_MS: Final = 60_000
LOOK_AGAIN_S: Final = 1.0
LOOK_SOON_S: Final = 0.2
"""The same where the attempt has not begun: its task may just be ending."""
LINGER_MS: Final = 2_000
"""How long output may follow the end of its attempt before nobody waits for it any more."""
LATE_MS: Final = 3_600_000
"""How long after an attempt is over its worker may still bring what it printed."""
SWEEP_S: Final = 60.0
PAGE: Final = 1_000
OFFSET_MAX: Final = 1 << 60


async def bring(call: Call) -> Answer:
    """Add bytes to a stream of an attempt that the worker holds or held."""
    name = _name(call)
    chunk = Chunk(
        JobId(name.job_id),
        Index(name.index),
        name.attempt,
        LeaseId(call.number("lease_id", 0, most=OFFSET_MAX)),
        name.stream,
        call.number("offset", 0, most=OFFSET_MAX),
        call.content,
        skips=call.one("skips") == "1",
        ended=call.one("ended") == "1",
    )
    worker = WorkerId(call.one("worker"))
    incarnation = call.number("incarnation", 0, most=OFFSET_MAX)
    return Answer({"next": await _take(call, worker, incarnation, chunk)})


async def bring_many(call: Call) -> Answer:
    """Add to many streams at once; what is wrong with one says nothing of the others."""
    body: Chunks = call.body
    if len(body.chunks) > CHUNKS_MOST:
        raise Declined("too_large", f"at most {CHUNKS_MOST} chunks at a time")
    taken = await asyncio.gather(
        *(_take_one(call, body.worker, body.incarnation, chunk) for chunk in body.chunks)
    )
    return Answer(Receipt(list(taken)))


async def _take_one(call: Call, worker: WorkerId, incarnation: int, chunk: Chunk) -> Kept:
    try:
        return Kept(await _take(call, worker, incarnation, chunk))
    except Declined as no:
        if no.code == "forbidden":
            raise
        return Kept(no.extra.get("offset", 0), no.code)
    except OutputBusy:
        return Kept(chunk.offset, "not_ready")


async def read(call: Call) -> Answered:
    """Bytes of a stream from an offset on; with `wait`, once there are some or it has ended."""
    name = _name(call)
    limit = max(1, call.number("limit", READ_USUAL, most=READ_MOST))
    give_up_at = time.monotonic() + _wait_s(call)
    desk = call.service.output
    with desk.listening(name) as bell:
        while True:
            bell.clear()
            has_begun = await call.look(lambda state: _has_begun(state, name))
            # First whether it is over, then what there is: nothing falls in between.
            is_over = has_begun and await _is_over(call, name)
            try:
                piece = await desk.read(name, _offset(call), limit)
            except OutputGone as gone:
                raise Declined("gone", str(gone)) from gone
            if is_over and not piece.content:
                piece = structs.replace(piece, ended=True)
            left_s = give_up_at - time.monotonic()
            leaving = call.service.leaving
            if piece.content or piece.dropped or piece.ended or left_s <= 0:
                return _told(call, piece)
            if leaving.is_set():
                # Whoever follows goes on with whoever serves next.
                raise Declined("not_ready", "the server is leaving", headers={"retry-after": "1"})
            pause_s = min(left_s, LOOK_AGAIN_S if has_begun else LOOK_SOON_S)
            await until_any(bell.wait(), call.gone(), leaving.wait(), timeout_s=pause_s)


async def list_output(call: Call) -> Answer:
    """What is kept of the output of a job, by task, attempt and stream."""
    job_id = call.path["id"]
    await call.look(lambda state: job_of(state, job_id))
    limit = max(1, call.number("limit", PAGE, most=PAGE))
    first = call.number("cursor", 0, most=OFFSET_MAX)
    found = await call.service.output.listed(job_id, first, limit)
    cursor = str(found[-1].index + 1) if len(found) >= limit else None
    return Answer({"schema": 1, "logs": found, "next": cursor})


async def keep_tidy(service: Service) -> None:
    """For ever: remove the output of jobs that are forgotten, and end the streams of attempts
    whose worker did not live to do so."""
    state = service.served.coordinator.state

    def is_over(name: StreamName) -> bool:
        job = state.jobs.get(JobId(name.job_id))
        is_quiet = service.output.quiet_s(name) * 1_000 >= LINGER_MS
        return is_quiet and not is_live(job, name.index, name.attempt)

    while True:
        try:
            await service.output.sweep(is_over, lambda job: JobId(job) in state.jobs)
        except OSError as error:
            say("output_not_dropped", why=str(error))
        await asyncio.sleep(SWEEP_S)


# Writing.


async def _take(call: Call, worker: WorkerId, incarnation: int, chunk: Chunk) -> int:
    if not call.identity.speaks_for(worker):
        raise Declined("forbidden", f"this token is for the worker {call.identity.worker!r}")
    name = StreamName(chunk.job_id, chunk.index, chunk.attempt, chunk.stream)
    if chunk.stream not in STREAMS or not is_safe(chunk.job_id):
        raise Declined("not_found", f"there is no stream {chunk.stream[:40]!r} of this attempt")
    if not 0 <= chunk.offset <= OFFSET_MAX:
        raise Declined("invalid", "an offset is a whole number from zero on")
    await _check_tenant(call, worker, incarnation, chunk)
    try:
        return await call.service.output.append(
            name, chunk.offset, chunk.content, skips=chunk.skips, ended=chunk.ended
        )
    except Gap as gap:
        raise Declined("offset_gap", str(gap), extra={"offset": gap.expected}) from gap


async def _check_tenant(call: Call, worker: WorkerId, incarnation: int, chunk: Chunk) -> None:
    """Only who holds an attempt, or did until a moment ago, may say what it printed."""
    tenant = await call.service.tenants.of(
        lambda state: job_of(state, chunk.job_id), chunk.index, chunk.attempt
    )
    if tenant is None:
        raise Declined("not_found", "nobody has held this attempt")
    is_theirs = tenant.worker == worker and tenant.lease_id == chunk.lease_id
    if not is_theirs or tenant.incarnation not in (0, incarnation):
        raise Declined("lease_lost", "another worker holds this attempt, or another lease")
    if tenant.over_at and call.service.served.coordinator.now() - tenant.over_at > LATE_MS:
        raise Declined("lease_lost", "this attempt has been over for too long")


# Reading.


async def _is_over(call: Call, name: StreamName) -> bool:
    """Whether nothing more will come: the attempt ended a while ago, or said so itself."""
    desk = call.service.output
    if desk.said_nothing(name):
        return True
    if desk.quiet_s(name) * 1_000 < LINGER_MS:
        return False
    tenant = await call.service.tenants.of(
        lambda state: job_of(state, name.job_id), Index(name.index), name.attempt
    )
    if tenant is None:
        # So long over that the log has dropped it.
        return True
    passed_ms = call.service.served.coordinator.now() - tenant.over_at
    return bool(tenant.over_at) and passed_ms >= LINGER_MS


def _told(call: Call, told: Output) -> Answered:
    if wants_msgpack(call.headers.get("accept", "")):
        return Answer(told)
    headers = (
        ("holdfast-offset", str(told.offset)),
        ("holdfast-next", str(told.next)),
        ("holdfast-dropped", str(told.dropped)),
        ("holdfast-ended", str(told.ended).lower()),
    )
    return Raw(told.content, headers)


def _has_begun(state: State, name: StreamName) -> bool:
    """Whether there was or is such an attempt. The next one of a task that is not over has only
    not begun; one that will never be is not found."""
    job = job_of(state, name.job_id)
    index = Index(name.index)
    if index >= job.count:
        raise Declined("not_found", f"job {job.job_id} has no task {index}")
    begun = attempts_made(job, index)
    is_next = name.attempt == begun + 1 and state_of(job, index) < TaskState.COMMITTED
    if not 1 <= name.attempt <= begun and not is_next:
        raise Declined("not_found", f"task {job.job_id}/{index} has no attempt {name.attempt}")
    return not is_next


def _name(call: Call) -> StreamName:
    path = call.path
    numbers = (path["index"], path["attempt"])
    if not all(text.isascii() and text.isdigit() and len(text) <= 9 for text in numbers):
        raise Declined("not_found", "a task and its attempt are named by numbers")
    if path["stream"] not in STREAMS:
        raise Declined("not_found", f"a stream is one of {', '.join(STREAMS)}")
    return StreamName(path["job"], int(path["index"]), int(path["attempt"]), path["stream"])


def _offset(call: Call) -> int:
    """Where to begin. Below zero it counts from the end."""
    text = call.one("offset", "0")
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 18):
        raise Declined("invalid", f"offset={text[:40]!r} is not a whole number")
    return int(text)


def _wait_s(call: Call) -> float:
    with understood():
        return min(duration_ms(call.one("wait") or None, "wait"), LONGEST_WAIT_MS) / 1_000


_WRITING: Final = ("offset", "worker", "incarnation", "lease_id", "skips", "ended")
_PATH: Final = "/logs/{job}/{index}/{attempt}/{stream}"

ROUTES: Final[tuple[Route, ...]] = (
    Route("POST", "/logs", "worker", bring_many, Chunks, most_bytes=CHUNK_BYTES, keyed=False),
    Route(
        "PUT", _PATH, "worker", bring, query=_WRITING, most_bytes=CHUNK_BYTES, keyed=False,
        takes="application/octet-stream",
    ),
    Route(
        "GET", _PATH, "read", read, query=("offset", "limit", "wait"),
        answers="application/octet-stream",
    ),
    Route("GET", "/jobs/{id}/logs", "read", list_output, query=("limit", "cursor")),
)  # fmt: skip

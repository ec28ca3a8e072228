"""Questions in SQL and comparisons of two moments, answered by a second process."""

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec import structs

from holdfast.api.call import Answer, Call, Stream
from holdfast.api.contents import pieces
from holdfast.api.problems import Declined, understood
from holdfast.coordinator.desk import Failed
from holdfast.coordinator.inspect import Moment, moment_of
from holdfast.coordinator.querying import Question
from holdfast.coordinator.questions import Asked, Compared, Exported, Replied
from holdfast.wire.amounts import duration_ms
from holdfast.wire.bodies import Query

SQLITE: Final = "application/vnd.sqlite3"
TIMEOUT_MS_MOST = 300_000
PATIENCE_S = 600.0
"""Reading a long history takes longer than asking it something."""


async def query(call: Call) -> Answer:
    """Ask in SQL about everything that is known, now or at a moment of the past."""
    body: Query = call.body
    with understood():
        timeout_ms = duration_ms(body.timeout, "timeout")
    if not 0 < timeout_ms <= TIMEOUT_MS_MOST or body.limit < 0:
        raise Declined("invalid", "timeout is at most 300s, and limit is not negative")
    question = Question(body.sql, body.limit, timeout_ms)
    errand = Asked(_folder(call), _moment(body.at, "at"), question)
    told = await _replied(call, errand)
    return Answer({"schema": 1, **structs.asdict(told.rows)} if told.rows is not None else {})


async def export(call: Call) -> Stream:
    """All tables in a file of SQLite's, as they are now or were at a moment of the past."""
    with TemporaryDirectory(prefix="holdfast-") as place:
        target = Path(place) / "all.db"
        await _replied(call, Exported(_folder(call), _moment(call.one("at"), "at"), str(target)))
        # Whoever has it open can read it; nobody else ever finds it.
        content = await asyncio.to_thread(open, target, "rb")
    size = os.fstat(content.fileno()).st_size
    return Stream(SQLITE, pieces(content), (("content-length", str(size)),))


async def diff(call: Call) -> Answer:
    """What changed between two moments, each a position or a time; without `to`, until now."""
    before, after = _moment(call.one("from"), "from"), _moment(call.one("to"), "to")
    if before == Moment():
        raise Declined("invalid", "from: name the moment to begin at, a position or a time")
    told = await _replied(call, Compared(_folder(call), before, after))
    return Answer({"schema": 1, **(told.changes or {})})


def _folder(call: Call) -> str:
    return str(call.service.served.log.path)


def _moment(text: str, name: str) -> Moment:
    with understood():
        return moment_of(text, name)


async def _replied(call: Call, errand: Any) -> Replied:
    # Whoever asks has seen what memory knows; the second process sees only what is on disk.
    await call.ask(lambda _: None)
    desk = call.service.served.questions
    try:
        told = await asyncio.to_thread(desk.run, errand, Replied, patience_s=PATIENCE_S)
    except Failed as error:
        raise Declined("not_ready", f"the question could not be answered: {error}") from error
    if told.no is not None:
        raise Declined(told.no.code, told.no.why)
    return told

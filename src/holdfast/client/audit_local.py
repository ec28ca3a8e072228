"""Who did what and why in the log of this program, and questions in SQL about it."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import convert

from holdfast.client.audit import Answer, AuditEntry, AuditHead
from holdfast.client.errors import Refused
from holdfast.coordinator.audit import page_of
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.desk import Failed
from holdfast.coordinator.embedding import Embedded
from holdfast.coordinator.inspect import HistoryGone, moment_of
from holdfast.coordinator.querying import Question
from holdfast.coordinator.questions import Asked, Replied
from holdfast.coordinator.refusals import refusals_in
from holdfast.wire.amounts import duration_ms
from holdfast.wire.bodies import Query
from holdfast.wire.wanted_entries import WantedEntries

PATIENCE_S: Final = 600.0


class LocalAudit:
    """`ask` runs a question on the coordinator's thread. Records are read on the caller's, and
    questions are answered by a second process, so that work goes on meanwhile."""

    def __init__(
        self, ask: Callable[[Callable[[Coordinator], Any]], Any], embedded: Embedded
    ) -> None:
        self._ask = ask
        self._embedded = embedded

    def entries(self, wanted: WantedEntries, limit: int) -> list[AuditEntry]:
        # What was refused after the last record is told with it.
        before = self._ask(lambda coordinator: int(coordinator.state.position)) + 1
        log = self._embedded.log
        history = self._embedded.library().history
        refusals = list(refusals_in(log.path))
        try:
            found = page_of(history, log.oldest, before, refusals, wanted, limit=limit)
        except (HistoryGone, FileNotFoundError) as error:
            raise Refused("gone", "that part of the history is no longer kept") from error
        entries = found.entries[-limit:] if limit else found.entries
        return convert(entries, list[AuditEntry])

    def head(self) -> AuditHead:
        position = self._ask(lambda coordinator: int(coordinator.durable))
        log = self._embedded.log
        return AuditHead(log.log_id, position, (log.chain_after(position) or b"").hex())

    def answer(self, question: Query) -> Answer:
        # Whoever asks has seen what memory knows; the second process sees only what is on disk.
        self._ask(lambda _: None)
        errand = Asked(
            str(self._embedded.log.path),
            moment_of(question.at, "at"),
            Question(question.sql, question.limit, duration_ms(question.timeout, "timeout")),
        )
        try:
            told = self._embedded.questions.run(errand, Replied, patience_s=PATIENCE_S)
        except Failed as error:
            raise Refused("not_ready", f"the question could not be answered: {error}") from error
        if told.no is not None:
            raise Refused(told.no.code, told.no.why)
        return convert(told.rows, Answer, from_attributes=True)

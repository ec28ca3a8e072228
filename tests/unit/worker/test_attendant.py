"""Who looks after replicas says nothing more of one that has ended."""

import threading

from holdfast.core.ids import LeaseId
from holdfast.wire.service import ServicePlan
from holdfast.wire.servicing import READY
from holdfast.worker.attendant import Attendant
from holdfast.worker.replica import Replica
from holdfast.worker.sampling import Meter
from holdfast.worker.servicebook import ServiceBook

LEASE = LeaseId(7)


def test_an_answer_that_comes_when_the_replica_has_ended_is_told_to_nobody() -> None:
    book, ended = ServiceBook(), threading.Event()
    attendant = Attendant(book, lambda: None, lambda: 0, Meter())
    replica = Replica(LEASE, ServicePlan(argv=("x",), ports=()), "127.0.0.1", {})
    attendant.expect(replica)

    def answer(_: object) -> None:
        ended.wait()
        book.note(replica.news(READY))

    # The answer is being heard while the replica ends.
    attendant._say(answer, None)
    book.forget(LEASE)
    attendant.bury(LEASE)
    ended.set()
    attendant.close()
    assert book.state_of(LEASE) == ""
    assert not book.has_news()

"""What the judge of runtimes objects to, record by record."""

from holdfast.core import events as e
from holdfast.core.ids import Instant
from holdfast.core.record import Record
from holdfast.runtimes.documents import encode_status
from holdfast.runtimes.resource import KIND
from holdfast.runtimes.status import Phase, Status
from holdfast.testing.sim.declared import Declared


def said(judge: Declared, position: int, *events: e.AnyEvent) -> list[str]:
    record = Record(Instant(position), "Any", "runtimes", "", "", events)
    return list(judge.feed(position, record, {}))


def put(generation: int) -> e.AnyEvent:
    return e.ResourcePut(kind=KIND, name="r", generation=generation, spec=b"")


def status(observed: int, phase: Phase = Phase.PENDING) -> e.AnyEvent:
    content = encode_status(Status(phase=phase, observed_generation=observed))
    return e.ResourceStatusPut(kind=KIND, name="r", status=content)


def test_a_generation_follows_the_one_before_it() -> None:
    judge = Declared()
    assert said(judge, 1, put(1)) == said(judge, 2, put(2)) == []
    assert said(judge, 3, put(2)) != []


def test_a_status_tells_of_what_was_declared_and_never_goes_back() -> None:
    judge = Declared()
    said(judge, 1, put(1))
    assert said(judge, 2, status(2)) != []
    judge = Declared()
    said(judge, 1, put(1))
    said(judge, 2, put(2))
    assert said(judge, 3, status(2)) == []
    assert said(judge, 4, status(1)) != []


def test_phases_follow_each_other_along_the_edges_there_are() -> None:
    judge = Declared()
    said(judge, 1, put(1))
    assert said(judge, 2, status(1, Phase.APPLYING)) == []
    assert said(judge, 3, status(1, Phase.PENDING)) != []


def test_what_nobody_deleted_does_not_go() -> None:
    judge = Declared()
    said(judge, 1, put(1))
    assert said(judge, 2, e.ResourceRemoved(kind=KIND, name="r")) != []
    judge = Declared()
    said(judge, 1, put(1))
    said(judge, 2, e.ResourceDeletionMarked(kind=KIND, name="r"))
    assert said(judge, 3, e.ResourceRemoved(kind=KIND, name="r")) == []
    assert judge.shown["r"][-1] == (3, None)

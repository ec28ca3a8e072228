"""Whatever runs has a worker: what a look suspects, and what two of them find."""

from holdfast.coordinator.presence import Presence
from holdfast.core import commands as c
from holdfast.core.ids import Index, Instant, JobId, LeaseId
from holdfast.core.spec import JobSpec
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Started

SPEC = JobSpec(name="work", kind="function", target="work")
TERM_MS = 8_000


def running() -> tuple[Service, Presence]:
    service = Service(ManualClock(), SeededDice(1), term_ms=TERM_MS)
    service.do(c.SubmitJob(spec=SPEC, items=(b"x",)))
    service.settle()
    worker = Post(service)
    ((item,),) = (run.items for run in worker.hear().runs)
    started = Started(JobId("1"), Index(0), LeaseId(item.lease_id), 1)
    worker.hear(held=(item.lease_id,), started=(started,))
    return service, Presence(service.coordinator.state, service.exchanges, TERM_MS)


def test_resolution_001_15_who_is_there_is_never_suspected() -> None:
    service, presence = running()
    now = service.coordinator.now()
    assert [presence.look(now) for _ in range(3)] == [[], [], []]


def test_resolution_001_15_a_lease_that_lives_is_left_to_whoever_has_it() -> None:
    service, presence = running()
    service.exchanges.registry.forget(next(iter(service.exchanges.workers)))
    now = service.coordinator.now()
    assert [presence.look(now) for _ in range(3)] == [[], [], []]


def test_resolution_001_15_what_nobody_has_is_wrong_when_two_looks_find_it() -> None:
    service, presence = running()
    service.exchanges.registry.forget(next(iter(service.exchanges.workers)))
    later = Instant(service.coordinator.now() + 3 * TERM_MS)
    assert presence.look(later) == []
    (told,) = presence.look(later)
    assert told.startswith("S2 1/0: it runs under lease 1, and its holder")
    # One look that finds it well begins anew.
    assert presence.look(service.coordinator.now()) == []
    assert presence.look(later) == []

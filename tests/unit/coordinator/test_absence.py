"""An outage of ours is nobody's fault: no lease ends because we, or our disk, were away."""

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.spec import JobSpec
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Done, Started

SPEC = JobSpec(name="work", kind="function", target="work")
TERM_MS = 8_000


class Scene:
    """One worker that has started the one task there is."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.service = Service(self.clock, SeededDice(1), term_ms=TERM_MS)
        self.service.do(c.SubmitJob(spec=SPEC, items=(b"x",)))
        self.service.settle()
        self.worker = Post(self.service)
        ((item,),) = (run.items for run in self.worker.hear().runs)
        self.lease = LeaseId(item.lease_id)
        started = Started(JobId("1"), Index(0), self.lease, 1)
        self.worker.hear(held=(self.lease,), started=(started,))

    def told(self, kind: type[e.Event]) -> int:
        return sum(isinstance(x, kind) for r in self.service.records() for x in r.events)

    def pass_time(self, ms: int, *, synced: bool) -> None:
        """Turn after turn; where the disk is slow nothing of it is ever synced."""
        for _ in range(0, ms, TERM_MS // 8):
            self.clock.advance(TERM_MS // 8)
            if synced:
                self.service.settle()
            else:
                self.service.turn()


def test_a_coordinator_that_was_away_gives_every_lease_a_new_term_before_it_judges() -> None:
    scene = Scene()
    scene.clock.advance(TERM_MS + 1)
    done = Done(JobId("1"), Index(0), scene.lease, 1, b"result")
    assert scene.worker.hear(done=(done,)).verdicts == ()
    assert (scene.told(e.LeasesRearmed), scene.told(e.AttemptsReturned)) == (1, 0)


def test_a_coordinator_that_was_there_all_the_time_lets_a_lease_run_out() -> None:
    scene = Scene()
    scene.pass_time(TERM_MS, synced=True)
    assert (scene.told(e.LeasesRearmed), scene.told(e.AttemptsReturned)) == (0, 1)


def test_nothing_runs_out_while_the_disk_is_slow_nor_at_once_afterwards() -> None:
    scene = Scene()
    scene.service.do(c.SubmitJob(spec=SPEC, items=(b"y",)))
    assert scene.service.turn()
    scene.pass_time(3 * TERM_MS, synced=False)
    scene.service.synced()
    scene.service.settle()
    assert scene.told(e.AttemptsReturned) == 0
    assert scene.told(e.LeasesRearmed) >= 2
    scene.pass_time(TERM_MS // 2, synced=True)
    assert scene.told(e.AttemptsReturned) == 0


def test_an_idle_hour_writes_nothing() -> None:
    clock = ManualClock()
    service = Service(clock, SeededDice(1), term_ms=TERM_MS)
    before = service.log.durable
    clock.advance(3_600_000)
    service.settle()
    assert service.log.durable == before

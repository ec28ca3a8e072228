"""Who may work under a name: one living worker, and another only when it is known to be dead."""

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import Index, LeaseId, WorkerId
from holdfast.core.spec import JobSpec
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Exchange, Hello, Started

SPEC = JobSpec(name="work", kind="function", target="work")
TERM_MS = 8_000
W = WorkerId("w")


class Scene:
    """A server with a few tasks, and workers that come and go."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.service = Service(self.clock, SeededDice(1), term_ms=TERM_MS)
        self.service.do(c.SubmitJob(spec=SPEC, items=(b"a", b"b", b"c")))
        self.service.settle()

    def worker(self, incarnation: int = 1, name: str = "w") -> Post:
        return Post(self.service, name=name, incarnation=incarnation)

    def pass_time(self, ms: int) -> None:
        for _ in range(0, ms, TERM_MS // 8):
            self.clock.advance(TERM_MS // 8)
            self.service.settle()

    def lost(self) -> list[tuple[str, int]]:
        events = [x for r in self.service.records() for x in r.events]
        return [(x.worker, x.incarnation) for x in events if isinstance(x, e.WorkerLost)]


def hello(lock: str = "", host: str = "here") -> Hello:
    return Hello(host, 1, "test", address="10.0.0.1", lock=lock)


def leases_of(worker: Post) -> list[int]:
    return [item.lease_id for run in worker.replies[-1].runs for item in run.items]


def test_a_second_worker_of_a_living_ones_name_is_refused_and_takes_nothing() -> None:
    scene = Scene()
    first = scene.worker(1)
    first.hear(hello=hello())
    refused = scene.worker(2).hear(hello=hello(host="elsewhere"))
    assert "at work on here" in refused.refused
    assert refused.runs == ()
    assert scene.lost() == []
    first.say(held=(1,))
    scene.service.settle()
    assert scene.service.exchanges.workers[W].incarnation == 1


def test_what_others_said_while_we_were_away_is_no_silence_of_theirs() -> None:
    """Of what came meanwhile a late message of a former life may be read first."""
    scene = Scene()
    former, worker = scene.worker(1), scene.worker(2)
    former.say(hello=hello(lock="l"), slots=0)
    worker.hear(hello=hello(lock="l"))
    assert leases_of(worker) == [1]
    # We stand still, and nobody is heard.
    scene.clock.advance(2 * TERM_MS)
    late = former.hear()
    assert "at work on here" in late.refused
    worker.say(held=(1,))
    scene.service.settle()
    assert scene.lost() == []


def test_a_name_is_free_again_when_its_worker_was_silent_for_a_term() -> None:
    scene = Scene()
    scene.worker(1).hear(hello=hello())
    scene.pass_time(TERM_MS)
    second = scene.worker(2)
    assert second.hear(hello=hello()).refused == ""
    assert leases_of(second) == [2]


def test_who_waited_longer_than_a_term_for_its_answer_keeps_its_name_and_its_leases() -> None:
    scene = Scene()
    scene.service.do(c.PauseQueue(queue="default"))
    first = scene.worker(1)
    first.say(hello=hello())
    scene.service.settle()
    scene.pass_time(2 * TERM_MS)
    # It has heard nothing meanwhile, and now it is on its way to what it was given.
    scene.service.do(c.ResumeQueue(queue="default"))
    scene.service.settle()
    assert leases_of(first) == [1]
    assert scene.worker(2).hear(hello=hello(host="elsewhere")).refused
    assert scene.lost() == []
    # Once a term is over its leases are, too.
    scene.pass_time(TERM_MS)
    assert scene.worker(2).hear(hello=hello(host="elsewhere")).refused == ""
    assert scene.lost() == []


def test_a_worker_that_holds_the_lock_of_the_former_proves_its_death_at_once() -> None:
    scene = Scene()
    old = scene.worker(1)
    old.hear(hello=hello("lock-7"))
    new = scene.worker(2)
    assert new.hear(hello=hello("lock-7")).refused == ""
    assert scene.lost() == [("w", 1)]
    assert old.hear(held=(1,)).refused


def test_no_lock_no_proof_and_an_older_process_proves_nothing() -> None:
    scene = Scene()
    scene.worker(5).hear(hello=hello(""))
    assert scene.worker(6).hear(hello=hello("")).refused
    scene = Scene()
    scene.worker(5).hear(hello=hello("lock-7"))
    assert scene.worker(4).hear(hello=hello("lock-7")).refused
    assert scene.worker(6).hear(hello=hello("lock-8")).refused
    assert scene.lost() == []


def test_a_restarted_server_keeps_the_name_for_whoever_held_leases() -> None:
    scene = Scene()
    old = scene.worker(1)
    old.hear(hello=hello("lock-7"))
    scene.service.crash()
    assert "may still hold 1 leases" in scene.worker(2).hear(hello=hello("lock-7")).refused
    again = old.hear(held=(1,), seen=1)
    assert (again.refused, again.who) == ("", True)
    scene.service.crash()
    scene.pass_time(TERM_MS)
    assert scene.worker(2).hear(hello=hello("lock-7")).refused == ""


def test_a_worker_is_asked_who_it_is_until_it_says_so_and_that_is_no_record() -> None:
    scene = Scene()
    worker = scene.worker()
    assert worker.hear().who
    before = scene.service.log.durable
    worker.say(held=(1,), hello=hello())
    scene.service.settle()
    assert scene.service.log.durable == before
    (_, notice), = scene.service.coordinator.notices
    assert (notice.action, notice.entity) == ("worker_registered", "w")
    assert notice.details == {"address": "10.0.0.1"}


def test_missed_renewals_are_counted_and_an_exchange_takes_them_back() -> None:
    scene = Scene()
    worker = scene.worker()
    worker.hear(hello=hello())
    registry = scene.service.exchanges.registry
    scene.pass_time(TERM_MS)
    assert registry.missed(registry.workers[W]) == 2
    assert not registry.is_alive(registry.workers[W])
    worker.say()
    assert registry.missed(registry.workers[W]) == 0


def test_a_worker_that_is_long_gone_is_listed_for_an_hour() -> None:
    scene = Scene()
    scene.worker().hear(hello=hello())
    registry = scene.service.exchanges.registry
    scene.pass_time(TERM_MS)
    scene.clock.advance(3_500_000)
    registry.prune(scene.clock.now())
    assert W in registry.workers
    scene.clock.advance(100_000)
    registry.prune(scene.clock.now())
    assert registry.workers == {}


def test_resolution_000_21_who_is_unknown_is_asked_and_who_is_long_gone_is_let_go() -> None:
    scene = Scene()
    stranger = scene.worker()
    reply = stranger.hear(held=(77,))
    assert reply.who
    assert [stop.lease_id for stop in reply.stops] == [77]
    assert scene.service.exchanges.registry.is_alive(scene.service.exchanges.workers[W])
    scene.pass_time(TERM_MS)
    assert not scene.service.exchanges.registry.is_alive(scene.service.exchanges.workers[W])
    scene.clock.advance(3_600_000)
    scene.service.settle()
    assert scene.service.exchanges.workers == {}


def test_one_that_said_goodbye_is_gone_at_once_and_its_name_is_free() -> None:
    scene = Scene()
    scene.service.do(c.PauseQueue(queue="default"))
    worker = scene.worker(1)
    worker.say(hello=hello())
    scene.service.settle()
    worker.say(leaving=True, draining=True)
    scene.service.settle()
    farewell = worker.replies[-1]
    assert (farewell.number, farewell.runs, farewell.refused) == (2, (), "")
    registry = scene.service.exchanges.registry
    assert not registry.is_alive(registry.workers[W])
    scene.pass_time(2 * TERM_MS)
    assert registry.missed(registry.workers[W]) == 0
    scene.service.do(c.ResumeQueue(queue="default"))
    elsewhere = scene.worker(2)
    elsewhere.hear(hello=hello(host="elsewhere"))
    assert leases_of(elsewhere) == [1]
    assert scene.lost() == []


def test_what_was_on_its_way_to_one_that_left_is_given_to_others_at_once() -> None:
    scene = Scene()
    worker, other = scene.worker(1), scene.worker(name="other")
    worker.hear(hello=hello())
    assert leases_of(worker) == [1]
    # It left before that answer came.
    worker.hear(seen=0, leaving=True)
    other.hear(hello=hello(), slots=3)
    ended = [x for r in scene.service.records() for x in r.events]
    ends = [end for x in ended if isinstance(x, e.AttemptsReturned) for end in x.ends]
    assert [(end.lease_id, end.reason, end.charged) for end in ends] == [(1, "undelivered", "")]
    assert leases_of(other) == [2, 3, 4]


def test_what_one_that_left_had_begun_and_did_not_answer_for_is_lost_with_it() -> None:
    scene = Scene()
    worker = scene.worker(1)
    worker.hear(hello=hello())
    job_id = worker.replies[-1].runs[0].job_id
    started = Started(job_id, Index(0), LeaseId(1), 0)
    worker.hear(held=(1,), started=(started,))
    worker.hear(leaving=True)
    assert scene.lost() == [("w", 1)]


def test_a_cordoned_worker_is_given_nothing_and_what_it_holds_goes_on() -> None:
    scene = Scene()
    worker = scene.worker()
    worker.hear(hello=hello())
    scene.service.do(c.CordonWorker(worker=W))
    worker.say(held=(1,), slots=2)
    scene.service.settle()
    assert leases_of(worker) == [1]
    other = scene.worker(name="other")
    other.hear(hello=hello())
    assert leases_of(other) == [2]
    scene.service.do(c.UncordonWorker(worker=W))
    scene.service.settle()
    assert leases_of(worker) == [3]


def test_a_paused_queue_is_not_given_out() -> None:
    scene = Scene()
    scene.service.do(c.PauseQueue(queue="default"))
    worker = scene.worker()
    worker.say(hello=hello())
    scene.service.settle()
    assert worker.replies == []
    scene.service.do(c.ResumeQueue(queue="default"))
    scene.service.settle()
    assert leases_of(worker) == [1]


def test_a_parked_worker_is_let_go_with_an_empty_answer_or_forsaken_without_one() -> None:
    scene = Scene()
    scene.service.do(c.PauseQueue(queue="default"))
    worker = scene.worker()
    worker.say(hello=hello())
    scene.service.settle()
    scene.service.exchanges.unpark(said(worker))
    scene.service.settle()
    assert [(reply.number, reply.runs) for reply in worker.replies] == [(1, ())]
    worker.say()
    scene.service.settle()
    scene.service.exchanges.forsake(said(worker))
    scene.service.do(c.ResumeQueue(queue="default"))
    scene.service.settle()
    assert len(worker.replies) == 1
    worker.say(number=2)
    scene.service.settle()
    assert leases_of(worker) == [1]


def said(worker: Post) -> Exchange:
    """The message the worker waits for an answer to."""
    capacity = worker.service.exchanges.workers[worker.name].capacity
    return Exchange(
        worker.name, worker.incarnation, worker.number, 0, capacity, (), (), (), (), (), 0, False
    )

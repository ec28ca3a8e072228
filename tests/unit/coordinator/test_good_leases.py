"""What a worker is told about how long its leases are good, and what it may rely on."""

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.spec import STOP, JobSpec
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import Hello, Started

TERM_MS = 8_000
SPEC = JobSpec(
    name="work", kind="function", target="work", on_disconnect=STOP, memory_bytes=1 << 20
)
HELLO = Hello("here", 1, "test")


class Scene:
    """A server and one worker that is known to it."""

    def __init__(self, term_ms: int = TERM_MS) -> None:
        self.clock = ManualClock()
        self.service = Service(self.clock, SeededDice(1), term_ms=term_ms)
        self.worker = Post(self.service)

    def submit(self) -> None:
        self.service.do(c.SubmitJob(spec=SPEC, items=(b"a",)))
        self.service.settle()

    def epoch(self) -> int:
        return self.service.coordinator.state.epoch

    def pass_time(self, ms: int) -> None:
        for _ in range(0, ms, TERM_MS // 8):
            self.clock.advance(TERM_MS // 8)
            self.service.settle()

    def ends(self) -> list[str]:
        events = [x for r in self.service.records() for x in r.events]
        returned = [x for x in events if isinstance(x, e.AttemptsReturned)]
        return [end.reason for event in returned for end in event.ends]


def test_a_run_says_what_its_job_asked_for() -> None:
    scene = Scene()
    scene.submit()
    (run,) = scene.worker.hear(hello=HELLO).runs
    assert (run.on_disconnect, run.memory_bytes) == (STOP, 1 << 20)


def test_time_spent_parked_is_part_of_how_long_a_lease_is_good() -> None:
    scene = Scene()
    scene.worker.say(hello=HELLO)
    scene.service.settle()
    scene.pass_time(2 * TERM_MS)
    scene.submit()
    (reply,) = scene.worker.replies
    assert reply.runs
    # Counted from when the exchange came, so that the worker may count from when it sent it.
    assert reply.good_ms == 3 * TERM_MS


def test_a_renewal_is_told_at_once_and_another_sign_of_life_is_parked() -> None:
    scene = Scene()
    scene.submit()
    scene.worker.hear(hello=HELLO)
    scene.pass_time(TERM_MS // 4)
    scene.worker.say(held=(1,))
    scene.service.settle()
    assert len(scene.worker.replies) == 1
    scene.pass_time(TERM_MS // 4)
    scene.worker.say(held=(1,))
    scene.service.settle()
    parked, renewed = scene.worker.replies[1:]
    assert parked.good_ms == TERM_MS - TERM_MS // 4
    assert renewed.good_ms == TERM_MS


def test_what_the_worker_does_not_hold_says_nothing_about_what_it_holds() -> None:
    scene = Scene()
    scene.submit()
    scene.submit()
    scene.worker.hear(hello=HELLO, slots=2)
    (first, second) = (item.lease_id for run in scene.worker.replies[-1].runs for item in run.items)
    scene.service.do(
        c.StartAttempts(
            worker=scene.worker.name,
            incarnation=1,
            started=tuple(
                Started(run.job_id, item.index, item.lease_id, 0)
                for run in scene.worker.replies[-1].runs
                for item in run.items
            ),
        )
    )
    scene.pass_time(TERM_MS // 2)
    # One of them was started and is held no more: it is left to run out.
    reply = scene.worker.hear(held=(second,), slots=2)
    assert first != second
    assert reply.good_ms == TERM_MS


def test_leases_without_a_term_are_good_for_ever() -> None:
    scene = Scene(term_ms=0)
    scene.submit()
    assert scene.worker.hear().good_ms == 0


def test_a_grant_of_a_former_coordinator_may_still_arrive() -> None:
    scene = Scene()
    scene.submit()
    scene.worker.hear(hello=HELLO)
    scene.service.crash(frame_survives=True)
    # This was said before the answer with the grant came, and reaches the next coordinator.
    scene.worker.say(seen=0, hello=HELLO)
    scene.service.settle()
    assert scene.ends() == []
    # It has heard from this one, and takes no older answer any more.
    scene.worker.say(seen=2, hello=HELLO, epoch=scene.epoch())
    scene.service.settle()
    assert scene.ends() == ["undelivered"]


def test_a_message_that_was_long_on_its_way_says_nothing_of_what_came_since() -> None:
    scene = Scene()
    scene.submit()
    former = scene.epoch()
    scene.worker.hear(hello=HELLO)
    scene.service.crash(frame_survives=True)
    # Both were sent before the worker asked for what it runs now, and wandered about since.
    for number in (2, 3):
        scene.worker.say(number=number, seen=number - 1, hello=HELLO, epoch=former)
        scene.service.settle()
    assert scene.ends() == []

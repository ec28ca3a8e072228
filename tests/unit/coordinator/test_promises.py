"""What a commit may owe, and who is asked to keep it where not everybody can."""

import pytest

from holdfast.coordinator.carriers import PATIENCE_MS
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.ids import Index, LeaseId
from holdfast.core.owed import Entry
from holdfast.core.task import TaskState
from holdfast.testing.owing import (
    COURIER,
    HELPER,
    IN_BLOCK,
    REPORT,
    SINKS,
    SPEC,
    Runner,
    a_service,
    came,
    debt,
    effect,
    names,
    pass_time,
    records,
    say,
    state_of,
)
from holdfast.testing.post import Post
from holdfast.wire.delivery import WORKERS, Bounced
from holdfast.wire.exchange import COMMITTED, REFUSED, Done, Hello


@pytest.mark.parametrize(
    ("owed", "why"),
    [
        ((effect(sink="nowhere"),), "there is no sink called 'nowhere'"),
        ((effect(body=bytes(65 * 1024)),), "an entry has 66560 bytes"),
        ((effect(),) * 1_001, "it owes 1001 entries"),
        ((IN_BLOCK, effect()), "nothing may follow the block"),
        ((Entry("carrier pigeon", "ann", "", b""),), "nobody knows how to deliver"),
    ],
)
def test_a_commit_that_promises_what_nobody_can_keep_is_refused_and_its_attempt_fails(
    owed: tuple[Entry, ...], why: str
) -> None:
    service = a_service()
    runner = Runner(service)
    job_id = runner.submit()
    (verdict,) = runner.commit_task(job_id, 0, owed).verdicts
    assert (verdict.verdict, why in verdict.why) == (REFUSED, True)
    assert state_of(service, job_id) is TaskState.QUARANTINED
    (end,) = [x.ends[0] for r in service.records() for x in r.events
              if isinstance(x, e.TasksQuarantined)]  # fmt: skip
    assert why in end.error
    assert not service.coordinator.state.debts


def test_a_repeat_of_a_commit_is_committed_though_its_sink_is_gone_came() -> None:
    service = a_service()
    runner = Runner(service)
    job_id = runner.commit((effect(),))
    service.exchanges.adjust_sinks({})
    done = Done(job_id, Index(0), LeaseId(1), 1, b"result", (effect(),))
    say(runner.post, done=(done,))
    (verdict,) = runner.post.replies[-1].verdicts
    assert verdict.verdict == COMMITTED


def test_an_entry_whose_sink_was_taken_away_waits_for_it() -> None:
    service = a_service()
    job_id = Runner(service).commit((effect(),))
    service.exchanges.adjust_sinks({})
    courier = Post(service, name="courier")
    assert say(courier, hello=COURIER) == []
    owing = service.coordinator.state.debts.find(debt(job_id))
    assert owing is not None
    told = service.exchanges.deliveries.standings()(owing)
    assert (told.state, told.code) == ("WAITING", "no_sink")
    service.exchanges.adjust_sinks(SINKS)
    service.settle()
    assert came(courier) == ["0.0"]


def test_runs_name_the_sinks_there_are_and_the_log() -> None:
    service = a_service()
    service.do(c.SubmitJob(spec=SPEC, count=1))
    (run,) = Post(service).hear(hello=COURIER).runs
    assert (run.sinks, run.log_id) == (("ledger", "call"), service.log.log_id)


def test_a_file_waits_for_its_own_host_before_it_is_offered_to_others() -> None:
    service = a_service()
    job_id = Runner(service).commit((REPORT,))
    other = Post(service, name="other")
    elsewhere = Hello("two", 1, "1", delivers=(WORKERS,), places=("host:two",))
    assert say(other, hello=elsewhere) == []
    pass_time(service, PATIENCE_MS - 2_000)
    assert other.replies == []
    pass_time(service, 3_000)
    assert came(other) == ["0.0"]
    # It does not see the folder, and nobody else is there: the host is gone.
    bounced = Bounced(debt(job_id), "no such folder", is_elsewhere=True)
    other.hear(slots=0, bounced=(bounced,))
    owing = service.coordinator.state.debts.find(debt(job_id))
    assert owing is not None
    assert (owing.debt.parked, owing.debt.error) == (True, "host one is gone")
    # It comes back, and an operator sends the file on its way again.
    service.do(c.RetryEffects(names=(debt(job_id),)))
    home = Post(service, name="home")
    assert names(home.hear(hello=HELPER, slots=0).parcels) == ["0.0"]


def test_a_file_is_offered_to_each_of_the_others_before_it_is_given_up() -> None:
    service = a_service()
    job_id = Runner(service).commit((REPORT,))
    hello = Hello("two", 1, "1", delivers=(WORKERS,))
    others = [Post(service, name=name) for name in ("a", "b")]
    for other in others:
        say(other, hello=hello)
    pass_time(service, PATIENCE_MS + 1_000)
    (first,) = [other for other in others if other.replies]
    (second,) = [other for other in others if other is not first]
    say(first, bounced=(Bounced(debt(job_id), "not here", is_elsewhere=True),))
    assert came(second) == ["0.0"]
    second.hear(slots=0, delivered=(debt(job_id),))
    assert state_of(service, job_id) is TaskState.SUCCEEDED


def test_a_host_that_says_its_own_file_is_elsewhere_has_failed_a_try() -> None:
    service = a_service()
    job_id = Runner(service).commit((REPORT,))
    home = Post(service, name="home")
    home.hear(hello=HELPER, slots=0)
    home.hear(slots=0, bounced=(Bounced(debt(job_id), "not here", is_elsewhere=True),))
    assert records(service, e.DeliveryFailed) == 1


def test_an_effect_that_no_worker_can_deliver_backs_off_and_is_tried_again() -> None:
    service = a_service()
    job_id = Runner(service).commit((effect(sink="call"),))
    helper = Post(service, name="helper")
    helper.hear(hello=HELPER, slots=0)
    helper.hear(slots=0, bounced=(Bounced(debt(job_id), "no module", is_elsewhere=True),))
    assert records(service, e.DeliveryFailed) == 1
    helper.say(slots=0)
    pass_time(service, 2_000)
    assert names(helper.replies[-1].parcels) == ["0.0"]


def test_a_cordoned_worker_delivers_and_a_drained_one_does_not() -> None:
    service = a_service()
    Runner(service).commit((effect(),))
    courier = Post(service, name="courier")
    service.do(c.CordonWorker(worker=courier.name, reason="it fails tasks"))
    assert names(say(courier, hello=COURIER)) == ["0.0"]
    drained = Post(service, name="drained")
    say(courier)
    service.do(c.CordonWorker(worker=drained.name, reason="for good"))
    say(drained, hello=COURIER, draining=True)
    Runner(service, "other").commit((effect(),))
    assert came(drained) == []

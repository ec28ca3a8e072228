"""The worker's side of the exchange: what it says, when, and what it makes of the answers."""

from random import Random

import pytest
from msgspec import structs

from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.testing.stepped import SteppedExecutor, answer_to
from holdfast.wire.exchange import Capacity, Exchange, Item, Lingering, Reply, Run, Verdict
from holdfast.worker.agent import SIGNS_A_TERM, START_REPORT_MS, Agent

JOB = JobId("1")
NOW = 1_000
TAKES_MS = 1_000


def a_run(
    *leases: int, slot: int = 0, alone: bool = False, term_ms: int = 0, timeout_ms: int = 0
) -> Run:
    items = tuple(Item(Index(n), LeaseId(n), 1, b"abc%d" % n) for n in leases)
    return Run(JOB, slot, "function", "work", timeout_ms, term_ms, alone, len(items), items)


def a_reply(number: int, *runs: Run, stops: tuple[int, ...] = ()) -> Reply:
    verdicts = tuple(Verdict(LeaseId(lease), "LEASE_LOST", "ended") for lease in stops)
    return Reply(number, (), verdicts, (), runs)


class Bench:
    """An agent with an executor whose attempts take a second each."""

    def __init__(self, slots: int = 1) -> None:
        self.executor = SteppedExecutor(slots, Random(1), takes_ms=TAKES_MS)
        self.agent = Agent(WorkerId("w"), 1, self.executor, Capacity(slots, slots, 0, 0))

    def step(self, now_ms: int = NOW) -> Exchange | None:
        return self.agent.step(now_ms)

    def sent(self, now_ms: int = NOW) -> Exchange:
        exchange = self.agent.step(now_ms)
        assert exchange is not None, "it has nothing to say"
        return exchange

    def finish_all(self, now_ms: int = NOW) -> None:
        """Let everything assigned begin and end."""
        for turn in range(10):
            self.executor.advance(now_ms + turn * TAKES_MS)


def test_the_first_word_says_who_is_there_and_the_second_waits_for_an_answer() -> None:
    bench = Bench(slots=3)
    hello = bench.sent()
    assert (hello.number, hello.seen, hello.capacity.slots, hello.held) == (1, 0, 3, ())
    assert bench.step() is None


def test_work_that_comes_with_an_answer_is_held_run_and_reported() -> None:
    bench = Bench()
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5, 6)))
    assert bench.sent().held == (5, 6)
    bench.finish_all()
    report = bench.sent()
    assert [(done.lease_id, done.result) for done in report.done] == [
        (5, answer_to(b"abc5")),
        (6, answer_to(b"abc6")),
    ]
    assert report.held == ()


def test_reports_are_kept_until_an_answer_names_their_exchange() -> None:
    bench = Bench()
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5)))
    bench.finish_all()
    report = bench.sent()
    assert report.done
    assert not bench.agent.is_idle()
    # What ended meanwhile waits for the answer: one exchange is under way at a time.
    assert bench.step() is None
    bench.agent.receive(a_reply(report.number))
    assert bench.agent.is_idle()
    assert bench.sent().done == ()


def test_an_empty_exchange_is_overtaken_by_one_with_reports() -> None:
    bench = Bench()
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5)))
    parked = bench.sent()
    bench.finish_all()
    report = bench.sent()
    assert (parked.number, report.number, report.seen) == (2, 3, 1)


def test_an_answer_to_an_overtaken_exchange_still_brings_its_work() -> None:
    bench = Bench(slots=2)
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5)))
    bench.sent()
    bench.finish_all()
    bench.sent()
    bench.agent.receive(a_reply(2, a_run(6, slot=1)))
    bench.agent.receive(a_reply(3))
    last = bench.sent()
    assert (last.held, last.seen) == ((6,), 3)


def test_an_answer_that_comes_twice_counts_once() -> None:
    bench = Bench(slots=2)
    bench.sent()
    answer = a_reply(1, a_run(5))
    bench.agent.receive(answer)
    bench.sent()
    bench.finish_all()
    bench.agent.receive(answer)
    bench.finish_all()
    assert bench.executor.ran[LeaseId(5)] == 1


def test_an_answer_that_comes_after_a_later_one_is_too_late() -> None:
    bench = Bench()
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5)))
    bench.sent()
    bench.finish_all()
    bench.sent()
    bench.agent.receive(a_reply(3))
    bench.sent()
    bench.agent.receive(a_reply(2, a_run(6)))
    assert LeaseId(6) not in bench.agent.unstarted()


def test_an_answer_to_something_never_said_is_ignored() -> None:
    bench = Bench()
    bench.agent.receive(a_reply(1, a_run(5)))
    bench.sent()
    bench.agent.receive(a_reply(7, a_run(6)))
    assert bench.agent.is_idle()


def test_an_attempt_that_takes_its_time_is_reported_as_started_once() -> None:
    bench = Bench()
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5)))
    bench.executor.advance(NOW)
    bench.sent(NOW)
    assert bench.step(NOW + START_REPORT_MS - 1) is None
    started = bench.sent(NOW + START_REPORT_MS)
    assert [(s.lease_id, s.ran_ms) for s in started.started] == [(5, START_REPORT_MS)]
    bench.agent.receive(a_reply(started.number))
    assert bench.sent(NOW + 2 * START_REPORT_MS).started == ()


def test_a_task_leased_alone_runs_only_after_its_start_was_answered() -> None:
    bench = Bench()
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5, alone=True)))
    started = bench.sent()
    assert [(s.lease_id, s.ran_ms) for s in started.started] == [(5, 0)]
    bench.finish_all()
    assert bench.executor.ran[LeaseId(5)] == 0
    bench.agent.receive(a_reply(started.number))
    bench.finish_all()
    assert bench.executor.ran[LeaseId(5)] == 1


def test_a_task_leased_alone_and_lost_before_its_start_never_runs() -> None:
    bench = Bench()
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5, alone=True)))
    started = bench.sent()
    bench.agent.receive(a_reply(started.number, stops=(5,)))
    bench.finish_all()
    assert bench.executor.ran[LeaseId(5)] == 0
    assert bench.agent.is_idle()


def test_what_lost_its_right_is_stopped_and_never_reported() -> None:
    bench = Bench()
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5, 6)))
    bench.sent()
    bench.agent.receive(a_reply(2, stops=(5,)))
    bench.finish_all()
    assert [done.lease_id for done in bench.sent().done] == [6]


def test_a_timeout_ends_the_attempt_and_its_lane_counts_as_lost_until_it_returns() -> None:
    bench = Bench()
    bench.sent()
    run = structs.replace(a_run(5, timeout_ms=1), cpus_milli=2_000, memory_bytes=7, gpus=1)
    bench.agent.receive(a_reply(1, run))
    bench.executor.advance(NOW)
    assert bench.agent.next_due(NOW) == NOW + 1
    report = bench.sent(NOW + 1)
    (failed,) = report.failed
    assert (failed.lease_id, failed.reason, report.occupied) == (5, "timed_out", 1)
    assert report.lingering == (Lingering(LeaseId(5), 0, 2_000, 7, 1, job_id=run.job_id),)
    assert "0.001 s" in failed.error
    bench.agent.receive(a_reply(report.number))
    parked = bench.sent(NOW + 2)
    assert (parked.lingering, parked.done) == (report.lingering, ())
    # The function returns at last: its result is nobody's, but the lane is news.
    bench.executor.advance(NOW + TAKES_MS)
    free = bench.sent(NOW + TAKES_MS)
    assert (free.occupied, free.lingering, free.done) == (0, (), ())


def test_leaving_gives_back_what_has_not_started_and_takes_nothing_more() -> None:
    bench = Bench()
    bench.sent()
    bench.agent.draining = True
    leaving = bench.sent()
    assert leaving.draining
    bench.agent.receive(a_reply(leaving.number, a_run(5), a_run(6, alone=True)))
    assert [r.lease_id for r in bench.sent().released] == [5, 6]
    bench.finish_all()
    assert not bench.executor.ran


def test_a_drained_worker_gives_back_what_has_not_started_until_it_may_work_again() -> None:
    bench = Bench(slots=1)
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5, 6)))
    bench.executor.advance(NOW)
    bench.sent(NOW + 1)
    drained = structs.replace(a_reply(2, a_run(7, alone=True)), drain=True)
    bench.agent.receive(drained)
    told = bench.sent(NOW + 2)
    assert (told.draining, sorted(r.lease_id for r in told.released)) == (True, [6, 7])
    assert not bench.agent.draining
    bench.agent.receive(structs.replace(a_reply(told.number), drain=True))
    bench.finish_all()
    done = bench.sent(NOW + TAKES_MS)
    assert [report.lease_id for report in done.done] == [5]
    bench.agent.receive(a_reply(done.number, a_run(8)))
    assert not bench.sent(NOW + TAKES_MS).draining
    bench.finish_all()
    assert [r.lease_id for r in bench.sent(NOW + 2 * TAKES_MS).done] == [8]


def test_finishing_answers_for_everything_that_is_held() -> None:
    bench = Bench(slots=2)
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5, 6), a_run(7, slot=1, alone=True)))
    bench.sent()
    bench.agent.finish(0)
    bench.agent.receive(a_reply(2))
    report = bench.sent()
    assert sorted(r.lease_id for r in report.released) == [5, 6, 7]
    bench.agent.receive(a_reply(report.number))
    assert bench.agent.is_idle()


@pytest.mark.parametrize("term_ms", [0, 9_000])
def test_leases_that_end_by_time_are_kept_by_signs_of_life(term_ms: int) -> None:
    bench = Bench()
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5, alone=True, term_ms=term_ms)))
    parked = bench.sent()
    bench.agent.receive(a_reply(parked.number))
    bench.sent()
    sign = NOW + 9_000 // SIGNS_A_TERM
    assert bench.step(sign - 1) is None
    if term_ms:
        assert bench.agent.next_due(NOW) <= sign
        assert bench.sent(sign).held == (5,)
    else:
        assert bench.step(sign) is None


def test_nothing_is_ever_due_that_cannot_be_done() -> None:
    bench = Bench()
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5, 6, term_ms=9_000)))
    bench.executor.advance(NOW)
    bench.executor.advance(NOW + TAKES_MS)
    report = bench.sent(NOW + TAKES_MS)
    assert report.done
    # The second task runs, its start is not told, and no word can be said before the answer.
    late = NOW + 100 * TAKES_MS
    assert bench.step(late) is None
    assert bench.agent.next_due(late) > late


def kept_by_a_coordinator(bench: Bench, *leases: int) -> None:
    """These have ended, and a coordinator keeps their results until the rest of the gang has."""
    first = bench.sent()
    bench.agent.receive(structs.replace(a_reply(first.number, a_run(*leases)), epoch=3), NOW)
    bench.finish_all()
    report = bench.sent()
    answer = structs.replace(a_reply(report.number), kept=tuple(map(LeaseId, leases)), epoch=3)
    bench.agent.receive(answer, NOW)


@pytest.mark.parametrize("who", [False, True])
def test_another_coordinator_is_told_again_what_the_former_kept_asked_or_not(who: bool) -> None:
    """It does not ask who is there where a late message has told it."""
    bench = Bench()
    kept_by_a_coordinator(bench, 5)
    sign = bench.sent(NOW + 100_000)
    assert (sign.held, sign.done) == ((5,), ())
    bench.agent.receive(structs.replace(a_reply(sign.number), epoch=4, who=who), NOW + 100_000)
    again = bench.sent(NOW + 100_000)
    assert ([done.lease_id for done in again.done], again.held) == ([5], ())
    # And what this one keeps is not told it a third time.
    answer = structs.replace(a_reply(again.number), kept=(LeaseId(5),), epoch=4)
    bench.agent.receive(answer, NOW + 100_000)
    assert bench.sent(NOW + 200_000).done == ()


@pytest.mark.parametrize("is_last", [False, True])
def test_an_answer_of_a_coordinator_before_the_one_it_heard_brings_nothing(is_last: bool) -> None:
    """The later one was told that what the former had granted has not come."""
    bench = Bench()
    bench.agent.receive(structs.replace(a_reply(bench.sent().number), epoch=11), NOW)
    parked = bench.sent()
    bench.agent.speak_up()
    late = bench.sent()
    bench.agent.receive(structs.replace(a_reply(parked.number), epoch=12), NOW)
    if not is_last:
        bench.agent.speak_up()
        bench.sent()
    bench.agent.receive(structs.replace(a_reply(late.number, a_run(17)), epoch=11), NOW)
    assert bench.executor.running() == []
    # What was answered by the one that is gone is said again.
    following = bench.step()
    assert (following is not None) == is_last
    if following is not None:
        assert (following.seen, following.epoch, following.held) == (parked.number, 12, ())


def test_what_is_told_again_is_not_taken_for_what_is_on_its_way() -> None:
    bench = Bench(slots=2)
    kept_by_a_coordinator(bench, 5)
    asking = bench.sent(NOW + 100_000)
    bench.agent.receive(
        structs.replace(a_reply(asking.number, a_run(6)), epoch=3), NOW + 100_000
    )
    parked = bench.sent(NOW + 200_000)
    bench.finish_all(NOW + 200_000)
    report = bench.sent(NOW + 200_000)
    assert [done.lease_id for done in report.done] == [6]
    # The answer to the parked one comes from another coordinator, that to the report after it.
    bench.agent.receive(structs.replace(a_reply(parked.number), epoch=4), NOW + 200_000)
    bench.agent.receive(structs.replace(a_reply(report.number), epoch=4), NOW + 200_000)
    assert [done.lease_id for done in bench.sent(NOW + 200_000).done] == [5]


def test_a_kept_result_is_nothing_that_falls_due_when_authority_ends() -> None:
    bench = Bench()
    bench.sent()
    bench.agent.receive(a_reply(1, a_run(5, term_ms=9_000)))
    bench.finish_all()
    report = bench.sent()
    kept = structs.replace(a_reply(report.number), kept=(LeaseId(5),))
    bench.agent.receive(kept, NOW)
    late = NOW + 100_000
    sign = bench.sent(late)
    assert sign.held == (5,)
    # Nobody answers: there is nothing to do before the next sign of life.
    assert bench.agent.next_due(late) > late

"""How long a worker acts for leases it cannot be sure to hold. All times are given by hand."""

from random import Random

import pytest

from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.spec import STOP
from holdfast.testing.stepped import SteppedExecutor
from holdfast.wire.exchange import Capacity, Exchange, Hello, Item, Reply, Run, Verdict
from holdfast.worker.agent import Agent
from holdfast.worker.authority import margin_ms

TERM = 10_000
MARGIN = 1_000
SENT = 100_000
TAKES_MS = 1_000_000
HELLO = Hello("host", 7, "1.0")


def a_run(*leases: int, slot: int = 0, on_disconnect: str = "", alone: bool = False) -> Run:
    items = tuple(Item(Index(n), LeaseId(n), 1, b"x") for n in leases)
    return Run(
        JobId("1"), slot, "function", "work", 0, TERM, alone, len(items), items, on_disconnect
    )


def a_reply(number: int, *runs: Run, good_ms: int = TERM, who: bool = False) -> Reply:
    return Reply(number, (), (), (), runs, who=who, good_ms=good_ms)


class Bench:
    """An agent whose attempts take longer than any test."""

    def __init__(self, slots: int = 2, **options: object) -> None:
        self.executor = SteppedExecutor(slots, Random(1), takes_ms=TAKES_MS)
        self.agent = Agent(WorkerId("w"), 1, self.executor, Capacity(slots, slots, 0, 0), **options)

    def sent(self, now_ms: int) -> Exchange:
        exchange = self.agent.step(now_ms)
        assert exchange is not None, "it has nothing to say"
        return exchange

    def take(self, *runs: Run, good_ms: int = TERM) -> None:
        """An exchange at `SENT`, answered with this work, all of which begins at once."""
        number = self.sent(SENT).number
        self.agent.receive(a_reply(number, *runs, good_ms=good_ms), SENT)
        self.executor.advance(SENT)
        # The starts are told and heard; the leases end when they did before.
        told = self.agent.step(SENT + 20)
        if told is not None:
            self.agent.receive(a_reply(told.number, good_ms=good_ms - 20), SENT + 20)

    def running(self) -> list[int]:
        return sorted(running.lease_id for running in self.executor.running())


@pytest.mark.parametrize(
    ("term_ms", "expected"), [(15_000, 1_500), (60_000, 6_000), (3_000, 500), (1_000, 250)]
)
def test_the_margin_is_a_tenth_at_least_half_a_second_at_most_a_quarter(
    term_ms: int, expected: int
) -> None:
    assert margin_ms(term_ms) == expected


def test_until_the_margin_everything_goes_on_and_then_what_has_not_begun_is_taken_back() -> None:
    bench = Bench(slots=1)
    bench.take(a_run(5, 6))
    parked = bench.sent(SENT + 20)
    assert bench.agent.next_due(SENT + 20) <= SENT + TERM - MARGIN
    bench.agent.step(SENT + TERM - MARGIN - 1)
    assert bench.agent.unstarted() == {6}
    report = bench.sent(SENT + TERM - MARGIN)
    assert [(back.lease_id, back.started) for back in report.released] == [(6, False)]
    assert report.held == (5,)
    assert report.number > parked.number


def test_what_runs_goes_on_and_is_reported_as_held_when_somebody_listens_again() -> None:
    bench = Bench(slots=1)
    bench.take(a_run(5))
    late = SENT + 3 * TERM
    lost = bench.sent(late)
    assert lost.held == (5,)
    assert bench.running() == [5]
    bench.agent.receive(
        Reply(lost.number, (), (Verdict(LeaseId(5), "LEASE_LOST", "ended"),), (), ()), late
    )
    assert bench.running() == []


def test_what_asked_to_be_stopped_is_ended_while_the_margin_lasts_and_given_back() -> None:
    bench = Bench(slots=2)
    bench.take(a_run(5, on_disconnect=STOP), a_run(6, slot=1))
    bench.agent.step(SENT + TERM - MARGIN - 1)
    assert bench.running() == [5, 6]
    report = bench.sent(SENT + TERM - MARGIN)
    assert bench.running() == [6]
    assert [(back.lease_id, back.started) for back in report.released] == [(5, True)]
    assert report.held == (6,)


def test_a_start_that_waits_to_be_durable_is_not_begun_without_authority() -> None:
    bench = Bench()
    first = bench.sent(SENT)
    bench.agent.receive(a_reply(first.number, a_run(5, alone=True)), SENT)
    started = bench.sent(SENT)
    assert started.started
    late = SENT + TERM
    assert bench.agent.step(late) is None
    bench.agent.receive(a_reply(started.number, good_ms=TERM), late)
    assert not bench.executor.ran
    assert [back.lease_id for back in bench.sent(late).released] == [5]


def test_an_answer_that_was_long_on_its_way_brings_nothing_to_start() -> None:
    bench = Bench()
    first = bench.sent(SENT)
    late = SENT + TERM
    bench.agent.receive(a_reply(first.number, a_run(5)), late)
    bench.executor.advance(late)
    assert not bench.executor.ran
    assert [back.lease_id for back in bench.sent(late).released] == [5]


def test_time_spent_parked_at_the_server_does_not_shorten_a_lease() -> None:
    bench = Bench()
    first = bench.sent(SENT)
    granted = SENT + 2 * TERM
    bench.agent.receive(a_reply(first.number, a_run(5), good_ms=3 * TERM), granted)
    bench.executor.advance(granted)
    assert bench.running() == [5]


def test_an_answer_counts_from_when_its_exchange_was_sent_and_renews() -> None:
    bench = Bench(slots=1)
    bench.take(a_run(5, 6))
    bench.sent(SENT)
    sign_at = bench.agent.next_due(SENT + TERM // 3 + 1)
    sign = bench.sent(SENT + TERM // 3 + 1) if sign_at else None
    assert sign is not None
    renewed = SENT + TERM // 3 + 1
    bench.agent.receive(a_reply(sign.number), renewed + 100)
    bench.agent.step(SENT + TERM - MARGIN)
    assert bench.agent.unstarted() == {6}
    bench.agent.step(renewed + TERM - MARGIN)
    assert bench.agent.unstarted() == set()


def test_a_sign_of_life_comes_early_in_the_half_in_which_leases_are_renewed() -> None:
    bench = Bench(slots=1)
    bench.take(a_run(5))
    times = []
    now, until = SENT, SENT + TERM
    for _ in range(6):
        parked = bench.agent.step(now)
        assert parked is not None
        due = bench.agent.next_due(now)
        while due <= now:
            now += 1
            due = bench.agent.next_due(now)
        now = due
        # The coordinator's rule: all is renewed when the soonest lease ends within half a term.
        sign = bench.sent(now)
        if until <= now + TERM // 2:
            until = now + TERM
            times.append(now)
        bench.agent.receive(a_reply(sign.number, good_ms=until - now), now)
        assert now < until - MARGIN
    assert len(times) >= 2


def test_who_it_is_is_told_first_and_whenever_asked() -> None:
    bench = Bench(hello=HELLO)
    first = bench.sent(SENT)
    assert first.hello == HELLO
    bench.agent.receive(a_reply(first.number, who=True), SENT)
    again = bench.sent(SENT)
    assert again.hello == HELLO
    bench.agent.receive(a_reply(again.number), SENT)
    assert bench.sent(SENT).hello is None


def test_a_worker_can_be_made_to_say_something_though_nothing_is_new() -> None:
    bench = Bench()
    parked = bench.sent(SENT)
    assert bench.agent.step(SENT) is None
    bench.agent.speak_up()
    assert bench.sent(SENT).number == parked.number + 1
    assert bench.agent.step(SENT) is None


def ended(bench: Bench, now_ms: int) -> None:
    for turn in range(1, 5):
        bench.executor.advance(now_ms + turn * TAKES_MS)


def test_results_that_do_not_fit_one_exchange_wait_and_stay_ours() -> None:
    bench = Bench(slots=1, report_bytes=2)
    bench.take(a_run(5, 6, 7))
    ended(bench, SENT)
    first = bench.sent(SENT)
    assert [done.lease_id for done in first.done] == [5, 6]
    assert first.held == (7,)
    bench.agent.receive(a_reply(first.number), SENT)
    assert [done.lease_id for done in bench.sent(SENT).done] == [7]


def test_an_exchange_too_large_for_the_server_is_said_in_smaller_ones() -> None:
    bench = Bench(slots=1)
    bench.take(a_run(5, 6))
    ended(bench, SENT)
    whole = bench.sent(SENT)
    bench.agent.make_smaller(whole)
    half = bench.sent(SENT)
    assert [done.lease_id for done in half.done] == [5]
    assert half.number > whole.number
    bench.agent.make_smaller(half)
    told = bench.sent(SENT)
    assert [(failed.lease_id, failed.reason) for failed in told.failed] == [(5, "failed")]
    assert "larger than the server takes" in told.failed[0].error

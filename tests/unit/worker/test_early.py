"""Commits that are made before their attempts end: what the worker says, and when the block runs.

The coordinator is played by hand here; the lanes and the agent are real.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import holdfast
from holdfast.core.ids import Index, JobId, LeaseId, WorkerId
from holdfast.core.owed import BLOCK, EFFECT, DebtName, Entry
from holdfast.wire.delivery import Bounced
from holdfast.wire.exchange import (
    COMMITTED,
    LEASE_LOST,
    REFUSED,
    Capacity,
    Exchange,
    Item,
    Reply,
    Run,
    Verdict,
)
from holdfast.worker.agent import Agent, is_empty
from holdfast.worker.early import LOST_GRACE_MS
from holdfast.worker.errors import CannotPromise, LeaseLost
from holdfast.worker.functions import reference
from holdfast.worker.payloads import decode_result, encode_call
from holdfast.worker.threads import ThreadExecutor

PATIENCE_S = 30
JOB = JobId("7")
BLOCK_ENTRY = Entry(BLOCK, "", "", b"")
NAME = DebtName(JOB, Index(0), 0)


class Story:
    """What a task did, step by step, and gates that hold it."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.errors: list[Exception] = []
        self.inside = threading.Event()
        self.go = threading.Event()


STORIES: dict[str, Story] = {}


def commits(name: str) -> str:
    story = STORIES[name]
    with holdfast.current().commit(result="committed"):
        story.steps.append("inside")
        story.inside.set()
        assert story.go.wait(PATIENCE_S)
    story.steps.append("after")
    return "ignored"


def commits_after_effects(name: str) -> None:
    ctx = holdfast.current()
    ctx.effect("ledger", key="a", body=1)
    ctx.effect("ledger", key="b", body=2)
    with ctx.commit():
        STORIES[name].steps.append("inside")


def raises_inside(name: str) -> None:
    with holdfast.current().commit():
        STORIES[name].steps.append("inside")
        raise OSError("the printer is on fire")


def raises_after(name: str) -> None:
    with holdfast.current().commit():
        STORIES[name].steps.append("inside")
    raise OSError("too late to matter")


def goes_on_after_a_loss(name: str) -> None:
    story = STORIES[name]
    try:
        with holdfast.current().commit():
            story.steps.append("inside")
    except LeaseLost as error:
        story.errors.append(error)
        story.inside.set()
        assert story.go.wait(PATIENCE_S)


def tries_more(name: str) -> None:
    ctx, errors = holdfast.current(), STORIES[name].errors
    with ctx.commit(result=1):
        for ask in (
            lambda: ctx.effect("ledger", body=1),
            lambda: ctx.commit(result=2).__enter__(),
        ):
            try:
                ask()
            except CannotPromise as error:
                errors.append(error)


class Bench:
    """An agent over threads, answered by the test."""

    def __init__(self, slots: int = 1) -> None:
        self.now_ms = 1_000
        self._rung = threading.Event()
        self.executor = ThreadExecutor(slots, self._rung.set, lambda: self.now_ms)
        self.agent = Agent(WorkerId("w"), 1, self.executor, Capacity(slots, slots, 0, 0))
        self._number = 1
        assert self.agent.step(self.now_ms) is not None

    def give(self, function: Callable[..., Any], name: str, **terms: Any) -> Story:
        """One task under a lease, answered to what was sent last."""
        story = STORIES[name] = Story()
        lease = LeaseId(len(STORIES))
        items = (Item(Index(0), lease, 1, encode_call((name,))),)
        run = Run(
            JOB, 0, "function", reference(function), 0, 0, False, 1, items, sinks=("ledger",),
            **terms,
        )  # fmt: skip
        self.answer(runs=(run,))
        return story

    def answer(self, *verdicts: Verdict, runs: tuple[Run, ...] = ()) -> None:
        reply = Reply(self._number, verdicts, (), (), runs)
        self.agent.receive(reply, self.now_ms)

    def sent(self) -> Exchange:
        """The next thing it says."""
        while True:
            exchange = self.agent.step(self.now_ms)
            if exchange is not None:
                self._number = exchange.number
                return exchange
            assert self._rung.wait(PATIENCE_S)
            self._rung.clear()

    def until(self, has: Callable[[Exchange], object]) -> Exchange:
        """The next exchange of this kind. Those before it are answered with nothing, but for those
        that say nothing: they are parked, and overtaken."""
        while not has(exchange := self.sent()):
            if not is_empty(exchange):
                self.answer()
        return exchange


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    for story in STORIES.values():
        story.go.set()
    STORIES.clear()
    bench.agent.finish(PATIENCE_S * 1_000)


def test_the_block_waits_for_the_verdict_and_is_told_when_it_is_left(bench: Bench) -> None:
    story = bench.give(commits, "a")
    told = bench.until(lambda exchange: exchange.done)
    done = told.done[0]
    assert decode_result(done.result) == "committed"
    assert done.owed == (BLOCK_ENTRY,)
    # From here on its lane is taken by something that no lease is needed for.
    assert (told.held, told.occupied, told.carrying) == ((), 1, (NAME,))
    assert [attempt.lease_id for attempt in told.lingering] == [1]
    assert story.steps == []
    bench.answer()
    assert story.inside.wait(PATIENCE_S)
    inside = bench.sent()
    assert (inside.occupied, inside.carrying, inside.delivered) == (1, (NAME,), ())
    story.go.set()
    left = bench.until(lambda exchange: exchange.delivered)
    assert (left.delivered, left.bounced, left.carrying) == ((NAME,), (), ())
    bench.answer()
    last = bench.until(lambda exchange: not exchange.occupied)
    assert (last.done, last.failed, last.released) == ((), (), ())
    assert story.steps == ["inside", "after"]
    assert bench.agent.is_idle()


def test_the_block_is_the_last_thing_owed(bench: Bench) -> None:
    bench.give(commits_after_effects, "a")
    done = bench.until(lambda exchange: exchange.done).done[0]
    assert [entry.kind for entry in done.owed] == [EFFECT, EFFECT, BLOCK]
    bench.answer()
    left = bench.until(lambda exchange: exchange.delivered)
    assert left.delivered == (DebtName(JOB, Index(0), 2),)


def test_a_commit_that_was_made_before_stands(bench: Bench) -> None:
    story = bench.give(commits, "a")
    bench.until(lambda exchange: exchange.done)
    bench.answer(Verdict(LeaseId(1), COMMITTED, ""))
    assert story.inside.wait(PATIENCE_S)


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(LeaseId(1), LEASE_LOST, "duplicate: attempt 2 has committed"),
        Verdict(LeaseId(1), REFUSED, "there is no sink 'ledger'"),
        Verdict(LeaseId(0), REFUSED, "the whole report is wrong"),
    ],
    ids=["lost", "refused", "all refused"],
)
def test_without_a_commit_the_block_is_not_entered(bench: Bench, verdict: Verdict) -> None:
    story = bench.give(goes_on_after_a_loss, "a")
    bench.until(lambda exchange: exchange.done)
    bench.answer(verdict)
    assert story.inside.wait(PATIENCE_S)
    assert story.steps == []
    assert verdict.why in str(story.errors[0])
    after = bench.sent()
    # It owes nothing, and is told of only as long as it has not ended.
    assert (after.carrying, after.occupied) == ((), 1)
    story.go.set()
    last = bench.until(lambda exchange: not exchange.occupied)
    assert (last.done, last.failed, last.released) == ((), (), ())
    assert (last.delivered, last.bounced) == ((), ())
    assert bench.agent.is_idle()


def test_one_that_goes_on_after_it_was_told_no_is_given_up(bench: Bench) -> None:
    story = bench.give(goes_on_after_a_loss, "a")
    bench.until(lambda exchange: exchange.done)
    bench.answer(Verdict(LeaseId(1), LEASE_LOST, "it was ended"))
    assert story.inside.wait(PATIENCE_S)
    assert not bench.executor.is_stopping(LeaseId(1))
    assert bench.agent.next_due(bench.now_ms) == bench.now_ms + LOST_GRACE_MS
    bench.now_ms += LOST_GRACE_MS
    bench.agent.step(bench.now_ms)
    assert bench.executor.is_stopping(LeaseId(1))


def test_a_block_that_raises_is_bounced_for_good(bench: Bench) -> None:
    story = bench.give(raises_inside, "a")
    bench.until(lambda exchange: exchange.done)
    bench.answer()
    told = bench.until(lambda exchange: exchange.bounced)
    error = "OSError: the printer is on fire"
    assert told.bounced == (Bounced(NAME, error, is_final=True),)
    assert (told.failed, told.delivered, story.steps) == ((), (), ["inside"])


def test_what_a_task_raises_after_its_block_changes_nothing_and_is_shown(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.give(raises_after, "a")
    bench.until(lambda exchange: exchange.done)
    bench.answer()
    told = bench.until(lambda exchange: exchange.delivered)
    assert (told.delivered, told.bounced, told.failed) == ((NAME,), (), ())
    bench.answer()
    bench.until(lambda exchange: not exchange.occupied)
    assert "too late to matter" in capsys.readouterr().err


def test_after_the_commit_nothing_more_can_be_promised(bench: Bench) -> None:
    story = bench.give(tries_more, "a")
    bench.until(lambda exchange: exchange.done)
    bench.answer()
    bench.until(lambda exchange: exchange.delivered)
    assert len(story.errors) == 2
    assert all("has committed" in str(error) for error in story.errors)


def test_no_timeout_holds_for_what_has_asked_for_its_commit(bench: Bench) -> None:
    story = bench.give(commits, "a", stall_ms=10_000)
    bench.until(lambda exchange: exchange.done)
    bench.now_ms += 1_000_000
    bench.answer()
    assert story.inside.wait(PATIENCE_S)
    assert bench.sent().failed == ()
    assert not bench.executor.is_stopping(LeaseId(1))


def test_a_stop_that_comes_after_the_commit_does_not_end_the_block(bench: Bench) -> None:
    story = bench.give(commits, "a")
    told = bench.until(lambda exchange: exchange.done)
    stop = Verdict(LeaseId(1), LEASE_LOST, "the attempt was ended")
    bench.agent.receive(Reply(told.number, (), (stop,), (), ()), bench.now_ms)
    assert story.inside.wait(PATIENCE_S)
    assert not bench.executor.is_stopping(LeaseId(1))


def test_one_that_lost_its_lease_before_is_refused_at_once(bench: Bench) -> None:
    gate = STORIES["gate"] = Story()
    story = bench.give(waits_then_commits, "a")
    assert gate.inside.wait(PATIENCE_S)
    told = bench.sent()
    stop = Verdict(LeaseId(2), LEASE_LOST, "cancelled")
    bench.agent.receive(Reply(told.number, (), (stop,), (), ()), bench.now_ms)
    gate.go.set()
    last = bench.until(lambda exchange: not exchange.occupied)
    assert (last.done, last.carrying, last.failed) == ((), (), ())
    assert "was ended" in str(story.errors[0])
    assert story.steps == []


def waits_then_commits(name: str) -> None:
    gate, story = STORIES["gate"], STORIES[name]
    ctx = holdfast.current()
    gate.inside.set()
    assert gate.go.wait(PATIENCE_S)
    try:
        with ctx.commit():
            story.steps.append("inside")
    except LeaseLost as error:
        story.errors.append(error)
        raise


def test_a_worker_that_closes_tells_that_the_block_was_cut_short(bench: Bench) -> None:
    story = bench.give(commits, "a")
    bench.until(lambda exchange: exchange.done)
    bench.answer()
    assert story.inside.wait(PATIENCE_S)
    bench.sent()
    bench.answer()
    bench.agent.finish(0)
    told = bench.sent()
    assert [(bounced.name, bounced.is_final) for bounced in told.bounced] == [(NAME, True)]
    assert "before it was left" in told.bounced[0].error


def test_a_worker_that_closes_before_the_verdict_does_not_let_the_block_begin(
    bench: Bench,
) -> None:
    story = bench.give(goes_on_after_a_loss, "a")
    bench.until(lambda exchange: exchange.done)
    bench.agent.finish(0)
    assert story.inside.wait(PATIENCE_S)
    bench.answer()
    told = bench.sent()
    assert [bounced.name for bounced in told.bounced] == [NAME]
    assert story.steps == []
    assert "closing" in str(story.errors[0])


def test_what_waits_behind_a_block_is_given_back(bench: Bench) -> None:
    bench.give(commits, "a")
    bench.until(lambda exchange: exchange.done)
    STORIES["b"] = Story()
    items = (Item(Index(1), LeaseId(9), 1, encode_call(("b",))),)
    run = Run(JOB, 0, "function", reference(commits), 0, 0, False, 1, items)
    bench.answer(runs=(run,))
    told = bench.until(lambda exchange: exchange.released)
    assert [(back.lease_id, back.started) for back in told.released] == [(9, False)]
    assert STORIES["b"].steps == []


def test_a_stalled_attempt_is_ended_and_said_to_be(bench: Bench) -> None:
    gate = STORIES["gate"] = Story()
    bench.give(waits_then_commits, "a", stall_ms=10_000)
    assert gate.inside.wait(PATIENCE_S)
    bench.now_ms = 10_999
    bench.until(lambda exchange: exchange.started)
    bench.answer()
    assert bench.agent.next_due(bench.now_ms) == 11_000
    bench.now_ms = 11_000
    told = bench.until(lambda exchange: exchange.failed)
    assert told.failed[0].reason == "timed_out"
    assert "no progress for 10 s" in told.failed[0].error


def test_progress_is_told_until_it_is_heard_and_keeps_a_stall_away(bench: Bench) -> None:
    gate = STORIES["gate"] = Story()
    bench.give(tells_and_waits, "a", stall_ms=10_000)
    assert gate.inside.wait(PATIENCE_S)
    bench.now_ms = 5_000
    told = bench.until(lambda exchange: exchange.progress)
    assert [(word.lease_id, word.done, word.total) for word in told.progress] == [(2, 3, 4)]
    bench.answer()
    bench.now_ms = 14_999
    after = bench.sent()
    assert (after.progress, after.failed) == ((), ())
    assert bench.agent.next_due(bench.now_ms) == 15_000
    bench.now_ms = 15_000
    assert bench.until(lambda exchange: exchange.failed).failed[0].lease_id == 2


def tells_and_waits(name: str) -> None:
    gate = STORIES["gate"]
    holdfast.current().progress(3, 4)
    gate.inside.set()
    assert gate.go.wait(PATIENCE_S)

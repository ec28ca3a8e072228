"""A task as its own code sees it, in a lane that is a thread."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import holdfast
from holdfast.testing.crew import Crew
from holdfast.worker.context import Context
from holdfast.worker.errors import NotInTask
from holdfast.worker.functions import reference
from holdfast.worker.payloads import encode_call
from holdfast.worker.threads import ThreadExecutor

PATIENCE_S = 30
SINKS = ("ledger", "mail")


class Notes:
    """What tasks and tests leave each other."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []
        self.begun = threading.Event()
        self.go = threading.Event()
        self.seen: list[Any] = []


NOTES: dict[str, Notes] = {}


def ids() -> list[Any]:
    ctx = holdfast.current()
    return [
        ctx.job_id, ctx.task_id, ctx.index, ctx.attempt, ctx.attempt_id, ctx.token, ctx.worker,
    ]  # fmt: skip


async def ids_later() -> list[Any]:
    await asyncio.sleep(0)
    inside = await asyncio.to_thread(holdfast.current)
    return [inside is holdfast.current(), inside.token]


def in_threads() -> list[str]:
    found: list[str] = []

    def look() -> None:
        try:
            found.append(holdfast.current().task_id)
        except NotInTask:
            found.append("outside")

    for target in (look, lambda: contextvars.copy_context().run(look)):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    copied = contextvars.copy_context()
    thread = threading.Thread(target=copied.run, args=(look,))
    thread.start()
    thread.join()
    return found


def leaves_its_context(name: str) -> None:
    notes = NOTES[name]
    notes.contexts.append(holdfast.current())
    copied = contextvars.copy_context()
    notes.seen.append(copied)


def waits(name: str) -> None:
    notes = NOTES[name]
    ctx = holdfast.current()
    notes.contexts.append(ctx)
    notes.seen.append(ctx.should_stop)
    notes.begun.set()
    assert notes.go.wait(PATIENCE_S)
    notes.seen.append(ctx.should_stop)


def waits_and_raises(name: str) -> None:
    waits(name)
    raise RuntimeError("half done")


def how_long() -> list[Any]:
    ctx = holdfast.current()
    left = ctx.remaining
    assert left is not None
    assert ctx.deadline is not None
    return [left, ctx.deadline, datetime.now(UTC)]


def has_no_limit() -> list[Any]:
    return [holdfast.current().remaining, holdfast.current().deadline]


def logs() -> None:
    holdfast.current().log.info("half way %d", 50)
    holdfast.current().log.debug("not told")


def says(count: int) -> None:
    for done in range(count):
        holdfast.current().progress(done, count, "rows")


class ThreadCrew(Crew):
    def __init__(self, slots: int = 1) -> None:
        self.now_ms = 1_000
        super().__init__(
            lambda wake: ThreadExecutor(slots, wake, lambda: self.now_ms, worker="press")
        )

    def give(self, function: Callable[..., Any], *args: Any, **terms: Any) -> None:
        kind = terms.pop("kind", "function")
        terms.setdefault("sinks", SINKS)
        self.assign(reference(function), [encode_call(args)], kind=kind, **terms)

    def run(self, function: Callable[..., Any], *args: Any, **terms: Any) -> Any:
        """What one task came to: its result, or its error."""
        before = len(self.done) + len(self.failed)
        self.give(function, *args, **terms)
        self.until(before + 1)
        return self.results()[-1] if not self.failed else self.failed[-1].error


@pytest.fixture
def crew() -> Iterator[ThreadCrew]:
    crew = ThreadCrew(2)
    yield crew
    for notes in NOTES.values():
        notes.go.set()
    NOTES.clear()
    crew.executor.close(PATIENCE_S * 1_000)


# Who it is.


def test_a_task_finds_out_what_it_is(crew: ThreadCrew) -> None:
    assert crew.run(ids) == ["job", "job/0", 0, 1, "job/0:1", 1, "press"]


def test_outside_a_task_there_is_none() -> None:
    with pytest.raises(holdfast.errors.NotInTask, match="not part of a task"):
        holdfast.current()


def test_a_coroutine_and_the_threads_it_waits_for_are_in_the_task(crew: ThreadCrew) -> None:
    assert crew.run(ids_later) == [True, 1]


def test_a_thread_is_in_the_task_where_it_takes_the_context_along(crew: ThreadCrew) -> None:
    assert crew.run(in_threads) == ["outside", "outside", "job/0"]


def test_code_that_outlives_its_task_is_not_taken_for_the_next(crew: ThreadCrew) -> None:
    notes = NOTES["stray"] = Notes()
    crew.run(leaves_its_context, "stray")
    later = NOTES["later"] = Notes()
    crew.give(waits, "later")
    assert later.begun.wait(PATIENCE_S)
    with pytest.raises(NotInTask, match="has ended"):
        notes.seen[0].run(holdfast.current)
    stray = notes.contexts[0]
    with pytest.raises(NotInTask, match="has ended"):
        stray.effect("ledger", body=1)
    with pytest.raises(NotInTask, match="has ended"):
        stray.progress(1)
    later.go.set()
    crew.until(2)
    assert [done.owed for done in crew.done] == [(), ()]


def test_a_command_is_told_who_it_is_and_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "JOB_ID": "12", "TASK_INDEX": "3", "ATTEMPT": "2", "LEASE_ID": "77", "WORKER_ID": "press",
    }  # fmt: skip
    for name, value in told.items():
        monkeypatch.setenv(f"HOLDFAST_{name}", value)
    ctx = holdfast.current()
    assert (ctx.attempt_id, ctx.token, ctx.worker) == ("12/3:2", 77, "press")
    assert (ctx.remaining, ctx.deadline, ctx.should_stop) == (None, None, False)
    for ask in (
        lambda: ctx.effect("ledger", body=1), lambda: ctx.progress(1), ctx.commit,
    ):  # fmt: skip
        with pytest.raises(NotInTask, match="is for a function"):
            ask()


def test_an_environment_that_tells_half_of_it_is_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_LEASE_ID", "77")
    with pytest.raises(NotInTask):
        holdfast.current()


# How long it may go on.


def test_what_is_left_of_the_timeout_is_known(crew: ThreadCrew) -> None:
    left, deadline, now = crew.run(how_long, timeout_ms=60_000)
    assert left == 60
    told = datetime.fromisoformat(deadline) if isinstance(deadline, str) else deadline
    seen = datetime.fromisoformat(now) if isinstance(now, str) else now
    assert abs(told - seen - timedelta(seconds=60)) < timedelta(seconds=PATIENCE_S)
    assert crew.run(has_no_limit, timeout_ms=0) == [None, None]


def test_an_attempt_that_is_given_up_is_told(crew: ThreadCrew) -> None:
    notes = NOTES["held"] = Notes()
    crew.give(waits, "held")
    assert notes.begun.wait(PATIENCE_S)
    crew.executor.stop(1)
    notes.go.set()
    assert crew.run(ids)[1] == "job/0"
    while len(notes.seen) < 2:
        crew.hear_the_bell()
    assert notes.seen == [False, True]


@pytest.mark.parametrize(
    ("asked", "fate"), [(True, "released"), (False, "failed")], ids=["asked to end", "not asked"]
)
def test_one_that_knew_it_must_end_and_raises_is_charged_nothing(
    crew: ThreadCrew, asked: bool, fate: str
) -> None:
    notes = NOTES["held"] = Notes()
    crew.give(waits_and_raises, "held")
    assert notes.begun.wait(PATIENCE_S)
    if asked:
        crew.executor.drain()
    notes.go.set()
    crew.until(1)
    assert notes.seen == [False, asked]
    assert [len(crew.released), len(crew.failed)] == ([1, 0] if fate == "released" else [0, 1])


# What it says.


def test_its_log_goes_to_the_error_output_under_its_name(
    crew: ThreadCrew, capsys: pytest.CaptureFixture[str]
) -> None:
    known = set(logging.root.manager.loggerDict)
    crew.run(logs)
    told = capsys.readouterr().err
    assert "INFO job/0:1: half way 50\n" in told
    assert "not told" not in told
    assert set(logging.root.manager.loggerDict) == known


def test_progress_is_told_the_first_time_and_the_last_however_often_it_is_said(
    crew: ThreadCrew,
) -> None:
    notes = NOTES["held"] = Notes()
    crew.give(waits, "held", stall_ms=40)
    assert notes.begun.wait(PATIENCE_S)
    ctx = notes.contexts[0]
    for done in range(1_000):
        ctx.progress(done, 1_000, "rows")
    while not crew.progress or crew.progress[-1].done != 999:
        crew.hear_the_bell()
    first = crew.progress[0]
    assert (first.lease_id, first.done, first.total, first.note) == (1, 0, 1_000, "rows")
    assert len(crew.progress) < 500


@pytest.mark.parametrize("done", [-1, float("nan"), float("inf"), "half", None])
def test_progress_that_is_no_number_is_refused(crew: ThreadCrew, done: Any) -> None:
    notes = NOTES["held"] = Notes()
    crew.give(waits, "held")
    assert notes.begun.wait(PATIENCE_S)
    with pytest.raises(ValueError, match="done="):
        notes.contexts[0].progress(done)

"""A task as its own code sees it, in a lane that is a thread."""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.core.owed import EFFECT, Entry
from holdfast.testing.crew import Crew
from holdfast.worker import context as limits
from holdfast.worker.context import Context
from holdfast.worker.errors import (
    CannotPromise,
    DuplicateEffect,
    EffectTooLarge,
    NotInTask,
    UnknownSink,
)
from holdfast.worker.functions import reference
from holdfast.worker.payloads import CannotEncode, encode_call
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


def promises(bodies: list[Any]) -> int:
    for body in bodies:
        holdfast.current().effect("ledger", body=body)
    return len(bodies)


def promises_and_fails() -> None:
    holdfast.current().effect("ledger", body=1)
    raise ValueError("bad")


def told_ids() -> list[str]:
    ctx = holdfast.current()
    return [ctx.effect("ledger", key="a", body=1), ctx.effect("mail", key="a", body=2)]


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


def stages(path: str) -> None:
    holdfast.current().parts.append(Scribbles(Path(path), is_open=False))


def stages_and_fails(path: str) -> None:
    stages(path)
    raise ValueError("bad")


def stages_and_leaves_open(path: str) -> None:
    holdfast.current().parts.append(Scribbles(Path(path), is_open=True))


class Scribbles:
    """A part of a task's promises: a file that must go when the task comes to nothing."""

    def __init__(self, path: Path, *, is_open: bool) -> None:
        self._path = path
        self._is_open = is_open
        path.touch()

    @property
    def unfinished(self) -> list[str]:
        return [str(self._path)] if self._is_open else []

    def entries(self) -> list[Entry]:
        return [Entry("file", "here", str(self._path), b"")]

    def discard(self) -> None:
        self._path.unlink()


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


# What it promises.


def test_what_is_promised_travels_with_the_result_in_its_order(crew: ThreadCrew) -> None:
    assert crew.run(promises, [{"amount": 7}, [1, "zwei"], b"raw", None]) == 4
    owed = crew.done[0].owed
    assert [(entry.kind, entry.place, entry.key) for entry in owed] == [(EFFECT, "ledger", "")] * 4
    bodies = [msgspec.msgpack.decode(entry.body) for entry in owed]
    assert bodies == [{"amount": 7}, [1, "zwei"], b"raw", None]


def test_a_task_that_fails_takes_no_promise_along(crew: ThreadCrew) -> None:
    crew.give(promises_and_fails)
    crew.give(ids)
    crew.until(2)
    assert [failed.error for failed in crew.failed] == ["ValueError: bad"]
    assert [done.owed for done in crew.done] == [()]


def test_effects_are_numbered_within_their_task(crew: ThreadCrew) -> None:
    assert crew.run(told_ids) == ["job/0.0", "job/0.1"]


@pytest.fixture
def ctx(crew: ThreadCrew) -> Context:
    """The context of a task that is under way."""
    notes = NOTES["held"] = Notes()
    crew.give(waits, "held")
    assert notes.begun.wait(PATIENCE_S)
    return notes.contexts[0]


def test_a_sink_that_nobody_knows_is_refused_with_those_there_are(ctx: Context) -> None:
    with pytest.raises(UnknownSink, match=r"no sink 'leger'; there are ledger, mail"):
        ctx.effect("leger", body=1)


def test_a_body_that_cannot_be_sent_is_refused(ctx: Context) -> None:
    with pytest.raises(CannotEncode, match="body of an effect for 'ledger'"):
        ctx.effect("ledger", body=object())


def test_a_body_may_be_so_large_and_no_larger(ctx: Context) -> None:
    # Three bytes say how long it is.
    ctx.effect("ledger", body=b"x" * (limits.BODY_BYTES_MAX - 5))
    with pytest.raises(EffectTooLarge, match=r"over the limit of 65,536"):
        ctx.effect("ledger", body=b"x" * limits.BODY_BYTES_MAX)


def test_two_effects_under_one_key_are_refused(ctx: Context) -> None:
    ctx.effect("ledger", key="invoice-7", body=1)
    ctx.effect("mail", key="invoice-7", body=1)
    with pytest.raises(DuplicateEffect, match="invoice-7"):
        ctx.effect("ledger", key="invoice-7", body=2)


def test_a_key_has_a_bound(ctx: Context) -> None:
    with pytest.raises(CannotPromise, match="at most 1000 characters"):
        ctx.effect("ledger", key="k" * 1_001, body=1)


def test_a_task_promises_so_many_things_and_no_more(ctx: Context) -> None:
    for number in range(limits.ENTRIES_MAX):
        ctx.effect("ledger", body=number)
    with pytest.raises(CannotPromise, match="at most 1,000"):
        ctx.effect("ledger", body=0)


def test_all_bodies_together_have_a_bound_that_a_refusal_does_not_use_up(ctx: Context) -> None:
    body = b"x" * (limits.BODY_BYTES_MAX - 5)
    for _ in range(limits.BODIES_BYTES_MAX // limits.BODY_BYTES_MAX):
        ctx.effect("ledger", body=body)
    with pytest.raises(EffectTooLarge, match="together"):
        ctx.effect("ledger", body=body)
    ctx.effect("ledger", body=1)


def test_a_gang_cannot_commit_early(crew: ThreadCrew) -> None:
    notes = NOTES["gang"] = Notes()
    crew.give(waits, "gang", gang=True)
    assert notes.begun.wait(PATIENCE_S)
    with pytest.raises(CannotPromise, match="together or not at all"):
        notes.contexts[0].commit(result=1)


# The seam for staged files and their like.


def test_a_part_of_the_promises_travels_behind_the_effects(
    crew: ThreadCrew, tmp_path: Path
) -> None:
    path = tmp_path / "part"
    crew.run(stages, str(path))
    assert [entry.key for entry in crew.done[0].owed] == [str(path)]
    assert path.exists()


def test_a_part_of_a_task_that_fails_is_discarded(crew: ThreadCrew, tmp_path: Path) -> None:
    path = tmp_path / "part"
    crew.run(stages_and_fails, str(path))
    assert not path.exists()


def test_a_part_that_is_not_brought_to_an_end_fails_its_task(
    crew: ThreadCrew, tmp_path: Path
) -> None:
    path = tmp_path / "part"
    assert "is still open" in crew.run(stages_and_leaves_open, str(path))
    assert not path.exists()

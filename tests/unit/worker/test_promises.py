"""What a task promises: checked when it is said, taken along by its commit, and by nothing else."""

import threading
from collections.abc import Callable, Iterator
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
    UnknownSink,
)
from holdfast.worker.functions import reference
from holdfast.worker.payloads import CannotEncode, encode_call
from holdfast.worker.promised import BODY_BYTES_MAX
from holdfast.worker.threads import ThreadExecutor

PATIENCE_S = 30


class Held:
    """A task that waits, and its context."""

    def __init__(self) -> None:
        self.context: list[Context] = []
        self.begun = threading.Event()
        self.go = threading.Event()


HELD: dict[str, Held] = {}


def waits(name: str) -> None:
    held = HELD[name]
    held.context.append(holdfast.current())
    held.begun.set()
    assert held.go.wait(PATIENCE_S)


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
    def __init__(self) -> None:
        super().__init__(lambda wake: ThreadExecutor(2, wake, lambda: 1_000))

    def give(self, function: Callable[..., Any], *args: Any, **terms: Any) -> None:
        sinks = ("ledger", "mail")
        self.assign(reference(function), [encode_call(args)], sinks=sinks, **terms)

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """What one task came to: its result, or its error."""
        self.give(function, *args)
        self.until(1)
        return self.results()[-1] if not self.failed else self.failed[-1].error

    def context(self, **terms: Any) -> Context:
        """The context of a task that is under way."""
        held = HELD["a"] = Held()
        self.give(waits, "a", **terms)
        assert held.begun.wait(PATIENCE_S)
        return held.context[0]


@pytest.fixture
def crew() -> Iterator[ThreadCrew]:
    crew = ThreadCrew()
    yield crew
    for held in HELD.values():
        held.go.set()
    HELD.clear()
    crew.executor.close(PATIENCE_S * 1_000)


@pytest.fixture
def ctx(crew: ThreadCrew) -> Context:
    return crew.context()


def test_what_is_promised_travels_with_the_result_in_its_order(crew: ThreadCrew) -> None:
    assert crew.run(promises, [{"amount": 7}, [1, "zwei"], b"raw", None]) == 4
    owed = crew.done[0].owed
    assert [(entry.kind, entry.place, entry.key) for entry in owed] == [(EFFECT, "ledger", "")] * 4
    bodies = [msgspec.msgpack.decode(entry.body) for entry in owed]
    assert bodies == [{"amount": 7}, [1, "zwei"], b"raw", None]


def test_a_task_that_fails_takes_no_promise_along(crew: ThreadCrew) -> None:
    crew.give(promises_and_fails)
    crew.give(promises, [])
    crew.until(2)
    assert [failed.error for failed in crew.failed] == ["ValueError: bad"]
    assert [done.owed for done in crew.done] == [()]


def test_effects_are_numbered_within_their_task(crew: ThreadCrew) -> None:
    assert crew.run(told_ids) == ["job/0.0", "job/0.1"]


def test_a_sink_that_nobody_knows_is_refused_with_those_there_are(ctx: Context) -> None:
    with pytest.raises(UnknownSink, match=r"no sink 'leger'; there are ledger, mail"):
        ctx.effect("leger", body=1)


def test_a_body_that_cannot_be_sent_is_refused(ctx: Context) -> None:
    with pytest.raises(CannotEncode, match="body of an effect for 'ledger'"):
        ctx.effect("ledger", body=object())


def test_a_body_may_be_so_large_and_no_larger(ctx: Context) -> None:
    # Three bytes say how long it is.
    ctx.effect("ledger", body=b"x" * (BODY_BYTES_MAX - 5))
    with pytest.raises(EffectTooLarge, match=r"over the limit of 65,536"):
        ctx.effect("ledger", body=b"x" * BODY_BYTES_MAX)


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
    body = b"x" * (BODY_BYTES_MAX - 5)
    for _ in range(limits.BODIES_BYTES_MAX // BODY_BYTES_MAX):
        ctx.effect("ledger", body=body)
    with pytest.raises(EffectTooLarge, match="together"):
        ctx.effect("ledger", body=body)
    ctx.effect("ledger", body=1)


def test_a_gang_cannot_commit_early(crew: ThreadCrew) -> None:
    ctx = crew.context(gang=True)
    with pytest.raises(CannotPromise, match="together or not at all"):
        ctx.commit(result=1)


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

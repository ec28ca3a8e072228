"""All twenty-five pairs of the five-state view, played against the real decisions."""

from collections.abc import Callable
from itertools import product

import pytest

from holdfast.core import commands as c
from holdfast.core.decision import Accepted, Decision
from holdfast.core.ids import Index, WorkerId
from holdfast.core.pairs import PAIRS, Pair, Verdict, View
from holdfast.testing.stages import JOB, Stage, stage_of

W = WorkerId("w")

# Where a task of the view is, in our words. FAILED: its attempt has failed and it backs off.
SOURCES = {
    View.PENDING: "aside",
    View.RUNNING: "running by time",
    View.SUCCEEDED: "succeeded",
    View.FAILED: "backing off",
    View.QUARANTINED: "quarantined",
}

ASK: dict[type[c.Command], Callable[[Stage], Decision]] = {
    c.RescheduleTask: lambda s: s.world.do(
        c.RescheduleTask(job_id=JOB, index=Index(0), delay_ms=9)
    ),
    c.GrantLeases: lambda s: s.world.do(
        c.GrantLeases(
            job_id=JOB, worker=W, incarnation=1, slot=0, indices=(Index(0),), term_ms=0
        )
    ),
    c.CommitTasks: lambda s: s.world.commit(JOB, 0, s.lease_id),
    c.FailAttempt: lambda s: s.world.fail(JOB, 0, s.lease_id),
    c.ReleaseAttempts: lambda s: s.world.release(JOB, 0, s.lease_id),
    c.ExtendLeases: lambda s: s.world.do(
        c.ExtendLeases(worker=W, incarnation=1, term_ms=10**6)
    ),
    c.RetryTasks: lambda s: s.world.do(c.RetryTasks(job_id=JOB, indices=(Index(0),))),
}


def source_of(pair: Pair) -> Stage:
    """The stage a pair begins at. What FAILED leads to is decided in the record of the failure,
    so its moves begin while the attempt runs; giving up needs a budget that is used up."""
    if pair.verdict is Verdict.MOVES and pair.source is View.FAILED:
        stage = stage_of("running")
    else:
        stage = stage_of(SOURCES[pair.source])
    if pair.verdict is Verdict.MOVES and pair.target is View.QUARANTINED:
        stage = stage_of("backing off")
        stage.world.sleep(1_000)
        (stage.lease_id,) = stage.world.grant(JOB, 0)
        stage.world.start(JOB, 0, stage.lease_id)
    return stage


def view_of(stage: Stage) -> View:
    state = stage.world.state.jobs[JOB].states[0]
    return {1: View.RUNNING, 2: View.RUNNING, 4: View.SUCCEEDED, 5: View.QUARANTINED}.get(
        state, View.PENDING
    )


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.source}-{pair.target}")
def test_001_74_valid_and_invalid_pairs_are_answered_as_the_table_says(pair: Pair) -> None:
    stage = source_of(pair)
    before = stage.world.fingerprint()
    decision = ASK[pair.command](stage)
    if pair.verdict is Verdict.MOVES:
        assert isinstance(decision, Accepted)
        assert pair.event in [type(event) for event in decision.events]
        landed = View.PENDING if pair.target is View.FAILED else pair.target
        assert view_of(stage) is landed
    else:
        assert not isinstance(decision, Accepted) or not decision.events
        assert stage.world.fingerprint() == before
    assert stage.world.troubles() == ()


def test_001_79_exhaustive_all_twenty_five_pairs_are_there_once() -> None:
    assert {(pair.source, pair.target) for pair in PAIRS} == set(product(View, View))
    assert len(PAIRS) == 25


def test_what_a_strict_table_allows_is_never_refused() -> None:
    strict = {
        ("PENDING", "RUNNING"), ("PENDING", "PENDING"), ("RUNNING", "SUCCEEDED"),
        ("RUNNING", "FAILED"), ("RUNNING", "RUNNING"), ("FAILED", "PENDING"),
        ("FAILED", "QUARANTINED"), ("FAILED", "FAILED"), ("SUCCEEDED", "SUCCEEDED"),
        ("QUARANTINED", "PENDING"), ("QUARANTINED", "QUARANTINED"),
    }  # fmt: skip
    for pair in PAIRS:
        passes_an_end = (pair.source, pair.target) in {
            (View.RUNNING, View.PENDING),
            (View.RUNNING, View.QUARANTINED),
        }
        is_strict = (pair.source.value, pair.target.value) in strict
        assert (pair.verdict is not Verdict.REFUSED) == (is_strict or passes_an_end)


def test_a_pair_that_repeats_or_is_refused_records_nothing() -> None:
    for pair in PAIRS:
        assert (pair.event is None) == (pair.verdict is not Verdict.MOVES)
        assert pair.note

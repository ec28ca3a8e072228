"""An attempt that comes when another has committed is a duplicate, and hears of the result."""

import pytest

from holdfast.core import commands as c
from holdfast.core.ids import Index
from holdfast.core.owed import EFFECT, Entry
from holdfast.testing.owing import COURIER, SPEC, TERM_MS, a_service, pass_time
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.wire.exchange import COMMITTED, LEASE_LOST, Done, Started, Verdict

OWED = (Entry(EFFECT, "ledger", "", b"\xc0"),)


def taken_over(service: Service, owed: tuple[Entry, ...]) -> tuple[Post, Done, Post, Done]:
    """One that fell silent and whose task another has committed: both, and what they report."""
    service.do(c.SubmitJob(spec=SPEC, count=1))
    first = Post(service, name="first")
    (run,) = first.hear(hello=COURIER).runs
    late = Done(run.job_id, Index(0), run.items[0].lease_id, 1, b"late")
    pass_time(service, TERM_MS + 1)
    second = Post(service, name="second")
    (run,) = second.hear(hello=COURIER).runs
    good = Done(run.job_id, Index(0), run.items[0].lease_id, 1, b"the one", owed)
    second.hear(done=(good,))
    return first, late, second, good


@pytest.mark.parametrize("owed", [(), OWED], ids=["done", "owing"])
def test_a_late_commit_is_refused_and_hears_of_the_one_that_stands(
    owed: tuple[Entry, ...]
) -> None:
    service = a_service()
    first, late, second, good = taken_over(service, owed)
    (verdict,) = first.hear(done=(late,)).verdicts
    told = "duplicate: attempt 2 has committed"
    assert verdict == Verdict(late.lease_id, LEASE_LOST, told, b"the one")
    # To the holder the very same report is a repeat, and no duplicate.
    (verdict,) = second.hear(done=(good,)).verdicts
    assert verdict == Verdict(good.lease_id, COMMITTED, "")


def test_an_attempt_that_starts_too_late_is_told_the_same() -> None:
    service = a_service()
    first, late, _, _ = taken_over(service, OWED)
    before = service.coordinator.state.position
    started = Started(late.job_id, late.index, late.lease_id, 1)
    (verdict,) = first.hear(started=(started,), held=(late.lease_id,)).verdicts
    assert (verdict.verdict, verdict.result) == (LEASE_LOST, b"the one")
    assert verdict.why.startswith("duplicate:")
    assert service.coordinator.state.position == before

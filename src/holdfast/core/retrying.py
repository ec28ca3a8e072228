"""The retry budget: so many retries of a job in a span of time, and no more.

A budget of 100 a minute is 100 tokens. A retry takes one and gives it back a minute after it came
due, so that no minute, wherever it begins, has more retries than tokens. Only those that are not
back yet are written down.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence

from holdfast.core.ids import Instant
from holdfast.core.spec import RetryBudget


def earliest(away: Sequence[Instant], budget: RetryBudget, wanted: Instant) -> Instant:
    """When a retry that is due at `wanted` has room. `away` says, in order, when the tokens that
    were taken come back."""
    if len(away) < budget.retries or away[0] <= wanted:
        return wanted
    return away[0]


def spend(away: list[Instant], budget: RetryBudget, due: Instant, now: Instant) -> None:
    """Take a token for a retry that is due at `due`: the one that came back last before it, since
    those that are back earlier may serve others earlier."""
    del away[: bisect_right(away, now)]
    place = bisect_right(away, due)
    if place:
        del away[place - 1]
    insort(away, Instant(due + budget.per_ms))

"""Workers that are stopped past their leases and go on: what they bring then is refused, what their
successors committed stands, and every effect has happened once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.testing.frozen import Relay

SLOTS = 8
SHARE = 12
SOAK = 200


def relay(tmp_path: Path, wanted: int) -> Relay:
    with Relay(tmp_path, slots=SLOTS, term="2s") as run:
        while run.thawed.late < wanted:
            run.round(run.thawed.tasks // SLOTS)
    assert run.judge() == []
    return run


@pytest.mark.slow
def test_what_a_worker_brings_that_was_stopped_past_its_leases_is_refused(tmp_path: Path) -> None:
    relay(tmp_path, SHARE)


@pytest.mark.soak
def test_two_hundred_results_of_workers_that_were_stopped_past_their_leases_are_refused(
    tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    run = relay(tmp_path, SOAK)
    record_testsuite_property("frozen workers", repr(run.thawed))

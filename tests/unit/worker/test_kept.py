"""A lane of a worker's own processes: how its tasks ended, as it is passed on."""

from collections.abc import Iterator

import pytest

from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.wire.exchange import Done, Item, Run
from holdfast.worker.frames import Ran
from holdfast.worker.kept import KeptLane


@pytest.fixture
def lane() -> Iterator[KeptLane]:
    lane = KeptLane()
    yield lane
    lane.close()


def test_many_short_tasks_together_are_told_to_have_taken_what_they_took(lane: KeptLane) -> None:
    item = Item(Index(0), LeaseId(1), 1, b"")
    run = Run(JobId("j"), 0, "function", "m:f", 0, 0, False, 1, (item,))
    reports = [lane.report_of((run, item), Ran(LeaseId(1), 400, b"")) for _ in range(10)]
    told = [report.ran_ms for report in reports if isinstance(report, Done)]
    assert sum(told) == 4
    assert set(told) == {0, 1}

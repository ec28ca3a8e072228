"""What an event names is read from its shape: no event that names a task is overlooked."""

import json
from pathlib import Path

import pytest

from holdfast.core import events as e
from holdfast.core.ids import Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.record import decode_record
from holdfast.core.task import TRANSITIONS
from holdfast.core.touching import Named, indices_of, leases_of

GOLDEN = Path(__file__).parents[2] / "golden" / "events.json"
MOVING = {kind for row in TRANSITIONS.values() for kind in row} - {e.TasksAdded}



def sample_event(kind: type[e.Event]) -> e.AnyEvent:
    written = json.loads(GOLDEN.read_text(encoding="utf-8"))["events"][kind.__name__]["bytes"]
    (event,) = decode_record(bytes.fromhex(written)).events
    return event


@pytest.mark.parametrize("kind", sorted(MOVING, key=lambda kind: kind.__name__))
def test_every_event_that_moves_a_task_names_it(kind: type[e.Event]) -> None:
    assert list(indices_of(sample_event(kind)))


@pytest.mark.parametrize("kind", [k for k in e.EVENT_TYPES if "lease_id" in k.__struct_fields__])
def test_every_lease_that_is_named_is_seen(kind: type[e.Event]) -> None:
    assert 4 in leases_of(sample_event(kind))


def test_the_highest_of_each_is_kept_with_every_task() -> None:
    named = Named()
    named.take(
        e.LeasesGranted(
            job_id=JobId("7"), worker=WorkerId("w"), incarnation=1, slot=0,
            first_lease=LeaseId(40), indices=(Index(2), Index(5)), attempts=(1, 1),
            expires_at=Instant(0), alone=False,
        )
    )  # fmt: skip
    end = e.End(
        Index(1), LeaseId(99), 1, "failed", WorkerId("w"), Position(1), Instant(0), Position(0),
        "", 0, 0, 0, Instant(0), "", "", None,
    )  # fmt: skip
    named.take(e.AttemptsReturned(job_id=JobId("7"), ends=(end,)))
    named.take(e.JobsForgotten(job_ids=(JobId("12"), JobId("nightly"))))
    assert named.tasks == {"7": {1, 2, 5}}
    assert (named.lease, named.job) == (99, 12)
    assert list(named.forgotten) == ["12", "nightly"]

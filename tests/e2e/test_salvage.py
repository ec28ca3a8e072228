"""A server whose log was damaged: what is left is salvaged, served, and worked for again."""

import os
from pathlib import Path

import pytest

import holdfast
from holdfast.coordinator.forking import build
from holdfast.coordinator.inspect import LogDamaged, look_into, open_folder
from holdfast.coordinator.salvage import plan_salvage
from holdfast.core import events as e
from holdfast.core.ids import Index, Instant, JobId
from holdfast.core.job import state_of
from holdfast.core.lineage import LEASE_LEAP
from holdfast.core.task import TaskState
from holdfast.testing import chores
from holdfast.testing.folders import flip_bit, zero_block
from holdfast.testing.loopback import ServerProcess, WorkerThread
from holdfast.wal import RealDisk, Wreckage

pytestmark = pytest.mark.slow

PATIENCE_S = 60


def wound(folder: Path, job_id: str, how: str) -> None:
    """Hurt the frame in which this job was submitted; what comes after it stays whole."""
    source = look_into(folder)
    position = next(
        told.position
        for told in source.records()
        if any(isinstance(x, e.JobSubmitted) and x.job_id == job_id for x in told.record.events)
    )
    places = Wreckage(RealDisk(), folder).places
    (hit,) = [place for place in places if place.first <= position <= place.last]
    if how == "flip":
        flip_bit(hit.path, (hit.offset + hit.end) // 2)
    else:
        zero_block(hit.path, hit.offset, hit.end - hit.offset)


@pytest.mark.parametrize("how", ["flip", "zeros"])
def test_a_worker_of_the_damaged_log_commits_nothing_in_the_salvaged_one_and_works_for_it(
    tmp_path: Path, how: str
) -> None:
    here, there = (str(tmp_path / name) for name in ("here", "there"))
    os.mkfifo(here)
    os.mkfifo(there)
    server = ServerProcess(tmp_path / "served", "--lease-term", "2s")
    with server, WorkerThread(server):
        with holdfast.connect(server.url, token_file=server.token_file) as hf:
            kept = hf.submit(chores.echo, "kept")
            assert kept.result(timeout=PATIENCE_S) == "kept"
            held = hf.submit(chores.tell_and_wait, here, there)
            with open(here) as begun:
                begun.read()
            wounded = hf.submit(chores.echo, "in the hole")
            behind = hf.submit(chores.echo, "behind it")
            ids = [JobId(each.id.partition("/")[0]) for each in (kept, held, wounded, behind)]
        server.kill()
        wound(server.data, ids[2], how)
        with pytest.raises(LogDamaged):
            look_into(server.data)
        plan, loss = plan_salvage(server.data, wall=Instant(1), actor="test")
        assert [job["id"] for job in loss.jobs_lost] == [ids[3]]
        assert loss.quarantined == (f"{ids[1]}/0",)
        build(plan, tmp_path / "saved")
        server.data.rename(tmp_path / "damaged")
        (tmp_path / "saved").rename(server.data)
        server.start()
        # Its result comes under a lease of the damaged log: nobody here knows of that.
        with open(there, "w") as go:
            go.write("go on")
        with holdfast.connect(server.url, token_file=server.token_file) as hf:
            assert hf.resume("looked at it") is True
            assert hf.resume() is False
            assert hf.submit(chores.echo, "again").result(timeout=PATIENCE_S) == "again"
    state = open_folder(server.data).state
    assert state_of(state.jobs[ids[1]], Index(0)) is TaskState.QUARANTINED
    assert state_of(state.jobs[ids[0]], Index(0)) is TaskState.SUCCEEDED
    assert state.next_lease > LEASE_LEAP
    committed = [
        event.job_id
        for told in look_into(server.data).records()
        for event in told.record.events
        if isinstance(event, e.TasksCompleted)
    ]
    assert ids[1] not in committed
    assert len(committed) == 1

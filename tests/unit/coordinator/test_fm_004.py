"""FM-004, the lost reply: a commit is durable, and whoever made it never hears so.

One test has late reports judged without a look into the log, and sees a committed file destroyed by
the very worker that wrote it; the others see that a repeat is told what became of the first.
"""

from pathlib import Path
from random import Random

import pytest

from holdfast.coordinator.reporting import Reporting
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Lost
from holdfast.core.ids import Index, JobId, LeaseId
from holdfast.core.owed import BLOCK, Entry
from holdfast.core.task import TaskState
from holdfast.testing.carrier import Carrier
from holdfast.testing.colleague import Colleague
from holdfast.testing.owing import SPEC, a_service, debt, state_of
from holdfast.testing.service import Service
from holdfast.testing.stepped import Attempt, SteppedExecutor
from holdfast.wire.delivery import Origin
from holdfast.wire.exchange import LEASE_LOST, Done, Verdict
from holdfast.worker.executor import Left
from holdfast.worker.leftovers import Journal
from holdfast.worker.parcels import Parcels
from holdfast.worker.placing import place_files
from holdfast.worker.staging import Outputs, Staging

JOB, RUN_MS = JobId("1"), 5


class StagingExecutor(SteppedExecutor):
    """Its task stages a file. One with a `block` asks for its commit before its end, and enters
    the block when it is told that the commit stands."""

    def __init__(self, folder: Path, *, block: bool) -> None:
        super().__init__(1, Random(0), takes_ms=RUN_MS)
        self.entered: list[LeaseId] = []
        self._folder = folder
        self._has_block = block

    def _end(self, attempt: Attempt) -> None:
        done = self.done_of(attempt, RUN_MS)
        (self._harvest.early if self._has_block else self._harvest.done).append(done)

    def done_of(self, attempt: Attempt, ran_ms: int) -> Done:
        run, item = attempt.run, attempt.item
        origin = Origin(run.log_id, run.job_id, item.index, item.lease_id)
        journal = Journal(self._folder / "journals")
        staging = Staging(origin, Outputs(), journal, str(self._folder))
        with staging.file("report.txt") as file:
            file.write("all of it")
        journal.close()
        owed = [*staging.entries(), *([Entry(BLOCK, "", "", b"")] if self._has_block else [])]
        return Done(run.job_id, item.index, item.lease_id, ran_ms, b"result", tuple(owed))

    def answer(self, lease_id: LeaseId, why: str) -> None:
        if not why:
            self.entered.append(lease_id)
            self._harvest.left.append(Left(lease_id))


class Story:
    """A worker runs a task and reports; the record is durable; the coordinator dies before its
    answer is out, and another one takes over."""

    def __init__(self, folder: Path, *, block: bool = False) -> None:
        self.service: Service = a_service()
        self.target = folder / "report.txt"
        self.executor = StagingExecutor(folder, block=block)
        self.carrier = Carrier()
        place = "host:one"
        self.worker = Colleague(
            self.service, "w", self.executor, parcels=Parcels(self.carrier), places=(place,)
        )
        self.service.do(c.SubmitJob(spec=SPEC, count=1))
        self.worker.converse()
        self.service.clock.advance(RUN_MS)  # type: ignore[attr-defined]
        assert self.worker.step()
        self.worker.send()
        assert self.worker.lose_answers()
        assert state_of(self.service, JOB) is TaskState.COMMITTED
        self.service.crash()

    def go_on(self) -> None:
        """The worker says the same again, and then whatever there is to say; files are placed."""
        self.worker.send(is_introduced=False)
        self.worker.converse()
        (parcel,) = self.carrier.parcels
        for _, bounced in place_files(parcel, is_own=True):
            told = "" if bounced is None else bounced.error
            self.carrier.settle(0, told, is_final=bool(told))
        self.worker.converse()


@pytest.fixture(autouse=True)
def _files_are_of_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.staging.place_of", lambda folder: "host:one")


def judged_by_the_lease_alone(reporting: Reporting, lost: Lost) -> Verdict:
    """The rule that seems enough: whose lease is over has come too late."""
    return Verdict(lost.lease_id, LEASE_LOST, lost.why)


def commits(service: Service) -> int:
    events = [event for record in service.records() for event in record.events]
    return sum(isinstance(event, e.TaskCommitted) for event in events)


def test_fm_004_without_the_look_into_the_log_a_committed_file_is_destroyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reporting, "_verdict", judged_by_the_lease_alone)
    story = Story(tmp_path)
    story.go_on()
    # It was told that it had lost, and cleaned up behind itself. The commit stands all the same.
    assert commits(story.service) == 1
    assert not story.target.exists()
    assert list(tmp_path.glob(".report*")) == []
    assert story.service.coordinator.state.debts.parked == 1


def test_fm_004_without_the_look_into_the_log_nobody_enters_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reporting, "_verdict", judged_by_the_lease_alone)
    story = Story(tmp_path, block=True)
    story.worker.send(is_introduced=False)
    story.worker.converse()
    assert (commits(story.service), story.executor.entered) == (1, [])


def test_fm_004_the_repeat_is_told_that_it_has_committed(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.go_on()
    assert story.target.read_text() == "all of it"
    assert state_of(story.service, JOB) is TaskState.SUCCEEDED
    assert commits(story.service) == 1
    assert list(story.executor.ran.values()) == [1], "the body was not run again"
    assert story.worker.agent.refused == 0
    assert story.service.troubles == []


def test_fm_004_the_block_is_entered_once_when_the_repeat_is_answered(tmp_path: Path) -> None:
    story = Story(tmp_path, block=True)
    assert story.executor.entered == []
    story.go_on()
    assert len(story.executor.entered) == 1
    assert state_of(story.service, JOB) is TaskState.SUCCEEDED
    assert story.service.troubles == []


@pytest.mark.parametrize("losses", [1, 2, 5])
def test_fm_004_however_often_the_answer_is_lost(tmp_path: Path, losses: int) -> None:
    story = Story(tmp_path, block=True)
    for _ in range(losses):
        story.worker.send(is_introduced=False)
        story.worker.lose_answers()
        story.service.crash(by_snapshot=True)
    story.go_on()
    assert commits(story.service) == 1
    assert len(story.executor.entered) == 1
    assert story.target.read_text() == "all of it"
    assert story.service.coordinator.state.debts.find(debt(JOB, Index(0))) is None
    assert story.service.troubles == []

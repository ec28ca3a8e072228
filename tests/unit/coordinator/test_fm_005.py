"""FM-005, the frozen worker: it was thought dead, its work was given away, and now it goes on.

Two tests take a guard out and see something happen twice. The others see that it does not: what the
sleeper has not told cannot be told any more, and what it had in hand bears the same key.
"""

import json
from pathlib import Path
from random import Random

import pytest

from holdfast.coordinator.deliveries import Deliveries
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.debts import Owing
from holdfast.core.ids import JobId, LeaseId
from holdfast.core.owed import BLOCK, EFFECT, Entry
from holdfast.core.task import TaskState
from holdfast.testing.colleague import Colleague
from holdfast.testing.owing import (
    COURIER,
    SPEC,
    TERM_MS,
    Runner,
    a_service,
    effect,
    pass_time,
    say,
    state_of,
)
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.testing.stepped import Attempt, SteppedExecutor
from holdfast.wire.delivery import Parcel
from holdfast.wire.exchange import Done
from holdfast.wire.sinks import FileSink
from holdfast.worker.executor import Left
from holdfast.worker.sinks.file import FileOutlet

JOB, RUN_MS = JobId("1"), 5
NULL = b"\xc0"


class ActingExecutor(SteppedExecutor):
    """Its task owes an effect and commits early. A `hasty` one does not wait for the answer: it
    asks, and acts."""

    def __init__(self, *, hasty: bool) -> None:
        super().__init__(1, Random(0), takes_ms=RUN_MS)
        self.acted = 0
        self._is_hasty = hasty

    def _end(self, attempt: Attempt) -> None:
        run, item = attempt.run, attempt.item
        owed = (Entry(EFFECT, "ledger", "k", NULL), Entry(BLOCK, "", "", b""))
        done = Done(run.job_id, item.index, item.lease_id, RUN_MS, b"result", owed)
        self._harvest.early.append(done)
        if self._is_hasty:
            self.acted += 1

    def answer(self, lease_id: LeaseId, why: str) -> None:
        if not why:
            self.acted += not self._is_hasty
            self._harvest.left.append(Left(lease_id))


def commits(service: Service) -> list[e.TaskCommitted]:
    events = [event for record in service.records() for event in record.events]
    return [event for event in events if isinstance(event, e.TaskCommitted)]


def two_attempts(*, hasty: bool) -> tuple[Service, int, Colleague]:
    """One is stopped at the end of its task and goes on when another has committed. How often
    anybody acted, and who was stopped."""
    service = a_service()
    sleeper = Colleague(service, "sleeper", ActingExecutor(hasty=hasty))
    other = Colleague(service, "other", ActingExecutor(hasty=hasty))
    service.do(c.SubmitJob(spec=SPEC, count=1))
    sleeper.converse()
    pass_time(service, RUN_MS)
    # It says that it wants to commit, and stops: the message never gets out.
    assert sleeper.step()
    pass_time(service, 2 * TERM_MS)
    while not commits(service):
        other.converse()
        pass_time(service, TERM_MS // 8)
    other.converse()
    sleeper.send()
    sleeper.converse()
    acted = [each.executor.acted for each in (sleeper, other)]  # type: ignore[attr-defined]
    return service, sum(acted), sleeper


def test_fm_005_whoever_acts_without_waiting_for_the_answer_acts_twice() -> None:
    _, acted, _ = two_attempts(hasty=True)
    assert acted == 2


def test_fm_005_a_sleeper_is_told_that_it_has_lost_and_does_not_act() -> None:
    service, acted, sleeper = two_attempts(hasty=False)
    assert acted == 1
    assert sleeper.agent.refused == 1
    assert len(commits(service)) == 1, "what the sleeper promised is owed by nobody"
    assert service.troubles == []


def a_key_of_each_dealing(deliveries: Deliveries, owing: Owing) -> str:
    """The rule that seems enough: every request has an id of its own."""
    deliveries.dealt = getattr(deliveries, "dealt", 0) + 1  # type: ignore[attr-defined]
    return f"request-{deliveries.dealt}"  # type: ignore[attr-defined]


def write_twice(path: Path) -> tuple[Service, JobId, list[str]]:
    """Who has an entry in hand is stopped; another delivers it; then the first goes on. The ids
    that the ledger has."""
    service = a_service()
    job_id = Runner(service).commit((effect("k", body=NULL),))
    sleeper, other = Post(service, name="sleeper"), Post(service, name="other")
    first = say(sleeper, hello=COURIER)
    pass_time(service, 3 * TERM_MS)
    second = say(other, hello=COURIER)
    assert len(first) == len(second) == 1
    deliver(path, second)
    say(other, delivered=tuple(d.name for d in second[0].deliveries))
    deliver(path, first)
    say(sleeper, delivered=tuple(d.name for d in first[0].deliveries))
    return service, job_id, [json.loads(line)["id"] for line in path.read_text().splitlines()]


def deliver(path: Path, parcels: list[Parcel]) -> None:
    """As another process would: what it knows, it knows from the file."""
    outlet = FileOutlet(FileSink(str(path)))
    for parcel in parcels:
        assert [bounced for _, bounced in outlet.deliver(parcel)] == [None]
    outlet.close()


def test_fm_005_with_a_key_for_each_request_the_effect_happens_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deliveries, "idempotency_key", a_key_of_each_dealing)
    _, _, ids = write_twice(tmp_path / "ledger")
    assert len(ids) == 2


def test_fm_005_the_key_is_that_of_the_entry_and_it_happens_once(tmp_path: Path) -> None:
    service, job_id, ids = write_twice(tmp_path / "ledger")
    assert len(ids) == 1
    assert state_of(service, job_id) is TaskState.SUCCEEDED
    assert service.troubles == []

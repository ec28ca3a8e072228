"""FM-008, the progress stall: the lease is renewed again and again, and nothing moves.

One test takes the look at progress away and sees a task hold its slot for ever; the others see it
ended, tried again and brought to its end, and one that moves left alone.
"""

from random import Random

import pytest
from msgspec import structs

from holdfast.coordinator.settings import Settings
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempt import EndReason
from holdfast.core.ids import JobId, LeaseId
from holdfast.core.spec import RetryPolicy
from holdfast.core.task import TaskState
from holdfast.testing.clock import ManualClock
from holdfast.testing.colleague import Colleague
from holdfast.testing.owing import SPEC, TERM_MS, a_service, state_of
from holdfast.testing.service import Service
from holdfast.testing.stepped import Attempt, SteppedExecutor
from holdfast.wire.exchange import Progress
from holdfast.worker.executor import Running

JOB, STALL_MS, LONG_MS = JobId("1"), 30_000, 300_000
STALLING = structs.replace(
    SPEC, retries=1, stall_ms=STALL_MS, retry=RetryPolicy(kind="none")
)


class HangingExecutor(SteppedExecutor):
    """Its first attempts never end, the next ones do at once. One that `moves` says so."""

    def __init__(self, hanging: int, *, moves: bool = False) -> None:
        super().__init__(1, Random(0), takes_ms=0)
        self._hanging = hanging
        self._moves = moves
        self._told: dict[LeaseId, int] = {}

    def _begin(self, attempt: Attempt, now_ms: int) -> None:
        super()._begin(attempt, now_ms)
        if self._hanging:
            self._hanging -= 1
            attempt.until = now_ms + 100 * LONG_MS

    def advance(self, now_ms: int) -> None:
        super().advance(now_ms)
        for running in super().running() if self._moves else ():
            if self._told.get(running.lease_id) == now_ms:
                continue
            self._told[running.lease_id] = now_ms
            self._harvest.progress.append(Progress(running.lease_id, now_ms, 0, ""))

    def running(self) -> list[Running]:
        told = self._told
        return [
            structs.replace(each, told_ms=told.get(each.lease_id, each.told_ms))
            for each in super().running()
        ]

    def stop(self, lease_id: LeaseId, grace_ms: int | None = None) -> None:
        """As with a process: it is killed, and its lane is free."""
        self.cut_off(lease_id, 0)
        self._harvest.released.clear()


def a_while_of(executor: SteppedExecutor, *, is_watched: bool = True) -> Service:
    service = a_service()
    if not is_watched:
        service.stalls.adjust(Settings(stall_ms=0))
    worker = Colleague(service, "w", executor)
    service.do(c.SubmitJob(spec=STALLING, count=1))
    clock = service.clock
    assert isinstance(clock, ManualClock)
    for _ in range(0, LONG_MS, TERM_MS // 4):
        worker.converse()
        clock.advance(TERM_MS // 4)
        service.settle()
    assert service.troubles == []
    return service


def ends_of(service: Service) -> list[str]:
    return [
        end.reason
        for record in service.records()
        for event in record.events
        if isinstance(event, e.AttemptsReturned | e.TasksQuarantined)
        for end in event.ends
    ]


def test_fm_008_without_a_look_at_progress_it_holds_its_slot_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Running, "trouble_at", lambda running, now_ms: "")
    monkeypatch.setattr(Running, "due_ms", lambda running: 0)
    service = a_while_of(HangingExecutor(1), is_watched=False)
    # Its worker is well and says so: no lease ever runs out.
    assert state_of(service, JOB) is TaskState.RUNNING
    assert ends_of(service) == []
    task = (service.coordinator.state.jobs[JOB].tasks or {})[0]  # type: ignore[index]
    assert task.attempt == 1
    assert task.expires_at > service.clock.now()


def test_fm_008_one_whose_worker_does_not_look_is_ended_by_the_coordinator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Running, "trouble_at", lambda running, now_ms: "")
    monkeypatch.setattr(Running, "due_ms", lambda running: 0)
    service = a_while_of(HangingExecutor(1))
    assert ends_of(service) == [EndReason.TIMED_OUT]
    assert state_of(service, JOB) is TaskState.SUCCEEDED


def test_fm_008_one_that_tells_no_progress_is_ended_and_tried_again() -> None:
    service = a_while_of(HangingExecutor(1))
    assert ends_of(service) == [EndReason.TIMED_OUT]
    assert state_of(service, JOB) is TaskState.SUCCEEDED


def test_fm_008_one_that_always_hangs_is_put_aside() -> None:
    service = a_while_of(HangingExecutor(100))
    assert ends_of(service) == [EndReason.TIMED_OUT] * 2
    assert state_of(service, JOB) is TaskState.QUARANTINED


def test_fm_008_one_that_moves_is_left_alone_however_long_it_takes() -> None:
    service = a_while_of(HangingExecutor(1, moves=True))
    assert ends_of(service) == []
    assert state_of(service, JOB) is TaskState.RUNNING

"""What is refused is counted, noted beside the log and told; it changes nothing."""

import logging
from pathlib import Path

import pytest

from holdfast.coordinator import refusals as book
from holdfast.coordinator.refusals import Refusal, RefusalNotes, refusals_in
from holdfast.core import commands as c
from holdfast.core.decision import Refused
from holdfast.core.ids import Index, JobId
from holdfast.testing.clock import ManualClock, SeededDice
from holdfast.testing.owing import COURIER, SPEC, TERM_MS, a_service, pass_time
from holdfast.testing.post import Post
from holdfast.testing.service import Service
from holdfast.testing.world import PLAIN
from holdfast.wire.exchange import Done


@pytest.fixture
def service(tmp_path: Path) -> Service:
    made = Service(ManualClock(), SeededDice(1))
    made.coordinator.refusing.notes = RefusalNotes(tmp_path)
    return made


def asked(service: Service, command: c.Command, **rest: object) -> object:
    return service.coordinator.execute(command, actor="user:ann", request_id="r1", **rest)


def noted(service: Service, folder: Path) -> list[Refusal]:
    notes = service.coordinator.refusing.notes
    assert notes is not None
    notes.close()
    return list(refusals_in(folder))


def test_001_36_a_refused_move_is_noted_with_its_subject(service, tmp_path, caplog):
    asked(service, c.SubmitJob(spec=PLAIN, job_id=JobId("j"), items=(b"", b"")))
    position = service.coordinator.state.position
    indices = (Index(0), Index(1))
    with caplog.at_level(logging.ERROR, "holdfast"):
        no = asked(service, c.RetryTasks(job_id=JobId("j"), indices=indices))
    assert isinstance(no, Refused)
    assert service.coordinator.state.position == position
    (refusal,) = noted(service, tmp_path)
    assert (refusal.subject, refusal.source, refusal.target) == ("j/0", "WAITING", "WAITING")
    assert (refusal.actor, refusal.request_id, refusal.command) == ("user:ann", "r1", "RetryTasks")
    assert (refusal.code, refusal.position) == ("invalid_transition", position)
    (line,) = caplog.records
    assert (line.levelname, line.event, line.task) == ("ERROR", "transition_refused", "j/0")
    assert (line.source, line.target, line.actor) == ("WAITING", "WAITING", "user:ann")


def test_what_is_not_there_is_noted_and_is_no_error_of_ours(service, tmp_path, caplog):
    with caplog.at_level(logging.DEBUG, "holdfast"):
        asked(service, c.KillTasks(job_id=JobId("no"), indices=(Index(3),)))
    assert not caplog.records
    refusal = noted(service, tmp_path)[0]
    assert (refusal.subject, refusal.source, refusal.code) == ("no/3", "", "not_found")


def test_001_37_a_repeat_is_counted_and_told_quietly(service, caplog):
    asked(service, c.SubmitJob(spec=PLAIN, job_id=JobId("j"), items=(b"",)))
    asked(service, c.KillJob(job_id=JobId("j"), reason="no"))
    with caplog.at_level(logging.DEBUG, "holdfast"):
        asked(service, c.KillJob(job_id=JobId("j"), reason="no"))
    assert dict(service.coordinator.refusing.repeats) == {"KillJob": 1}
    (line,) = caplog.records
    assert (line.levelname, line.event, line.command) == ("DEBUG", "repeat", "KillJob")


def nonsense(at: int) -> Refusal:
    return Refusal(at=at, position=1, command="CommitTasks", code="lease_lost", message="late")


def test_of_very_many_in_one_second_the_first_are_noted_and_the_rest_counted(tmp_path, caplog):
    notes = RefusalNotes(tmp_path)
    with caplog.at_level(logging.WARNING, "holdfast"):
        told = [notes.note(nonsense(5_000)) for _ in range(1_000)]
        notes.note(nonsense(6_000))
    notes.close()
    found = list(refusals_in(tmp_path))
    assert sum(told) == book.MOST_A_SECOND
    assert notes.dropped == 1_000 - book.MOST_A_SECOND
    assert len(found) == book.MOST_A_SECOND + 2
    assert found[-2].dropped == notes.dropped
    assert [line.event for line in caplog.records] == ["refusals_dropped"]


def test_the_notes_are_bounded_and_a_torn_line_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(book, "MOST_BYTES", 2_000)
    for second in range(200):
        notes = RefusalNotes(tmp_path)
        notes.note(nonsense(second * 1_000))
        notes.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["refused.notes", "refused.notes.old"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 5_000
    with (tmp_path / "refused.notes").open("ab") as file:
        file.write(b'\n{"at":1,"pos')
    found = [refusal.at for refusal in refusals_in(tmp_path)]
    assert found[-1] == 199_000
    assert found == sorted(found)


def test_notes_that_cannot_be_written_harm_nobody(tmp_path):
    notes = RefusalNotes(tmp_path / "gone")
    assert notes.note(nonsense(1))
    notes.close()
    assert list(refusals_in(tmp_path / "gone")) == []


def test_a_late_report_is_a_refusal_told_once_a_second_and_a_repeat_is_none(tmp_path, caplog):
    service = a_service()
    service.coordinator.refusing.notes = RefusalNotes(tmp_path)
    service.do(c.SubmitJob(spec=SPEC, items=(b"",)))
    first, second = Post(service, name="first"), Post(service, name="second")
    (run,) = first.hear(hello=COURIER).runs
    late = Done(run.job_id, Index(0), run.items[0].lease_id, 1, b"late")
    pass_time(service, TERM_MS + 1)
    (run,) = second.hear(hello=COURIER).runs
    good = Done(run.job_id, Index(0), run.items[0].lease_id, 1, b"good")
    position = service.coordinator.state.position
    with caplog.at_level(logging.INFO, "holdfast"):
        for _ in range(3):
            first.hear(done=(late,))
    second.hear(done=(good,))
    second.hear(done=(good,))
    found = noted(service, tmp_path)
    assert [(r.subject, r.source, r.target, r.code) for r in found] == [
        ("1/0", "LEASED", "SUCCEEDED", "lease_lost")
    ] * 3
    assert {r.actor for r in found} == {"worker:first"}
    assert [line.event for line in caplog.records] == ["lease_lost"]
    assert service.coordinator.refusals["lease_lost"] == 3
    assert service.coordinator.refusing.repeats["CommitTasks"] == 1
    assert position < service.coordinator.state.position


def test_of_very_many_late_reports_in_one_exchange_all_are_counted_and_the_first_noted(tmp_path):
    service = a_service()
    notes = service.coordinator.refusing.notes = RefusalNotes(tmp_path)
    liar = Post(service)
    done = tuple(Done(JobId("no"), Index(n), 10**9 + n, 1, b"") for n in range(1_000))
    reply = liar.hear(done=done, hello=COURIER)
    assert [verdict.verdict for verdict in reply.verdicts] == ["LEASE_LOST"] * 1_000
    assert service.coordinator.refusals["lease_lost"] == 1_000
    assert notes.dropped == 1_000 - book.MOST_A_SECOND
    kept = noted(service, tmp_path)
    first = [f"lease {10**9 + n}" for n in range(book.MOST_A_SECOND)]
    assert [each.request_id for each in kept] == first

"""Failures that are the same have one mark, and those that are not have two."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core import events as e
from holdfast.core.fingerprints import LETTERS, of_decision, of_end, steady
from holdfast.core.ids import NEVER, NOWHERE, Index, JobId, LeaseId, WorkerId
from holdfast.core.quarantine import Why, reason_of
from holdfast.worker.errands import Ended
from holdfast.worker.fates import fate_of, fate_of_command
from holdfast.worker.payloads import CannotEncode
from holdfast.worker.troubles import describe

BLANK = e.End(
    index=Index(0), lease_id=LeaseId(1), attempt=1, reason="failed", worker=WorkerId("w-17"),
    granted=NOWHERE, started_at=NEVER, previous=NOWHERE, charged="failures", failures=1, losses=0,
    strays=0, not_before=NEVER, error="", traceback="", exit_code=None,
)  # fmt: skip


def end_of(**told: object) -> e.End:
    return msgspec.structs.replace(BLANK, **told)


def raised(error: BaseException, line: int = 14, folder: str = "/tmp/bundle-1") -> e.End:
    """What a worker reports of an exception that came from two functions of the user's."""
    told = describe(error)
    stack = (
        "Traceback (most recent call last):\n"
        f'  File "{folder}/resize.py", line {line}, in resize\n    open_image(path)\n'
        f'  File "{folder}/images.py", line {line + 30}, in open_image\n    raise error\n'
        f"{told.error}\n"
    )
    return end_of(error=told.error, traceback=stack)


def command(words: str, code: int | None = 3, *, memory: int = 0, struck: bool = False) -> e.End:
    ended = Ended(
        LeaseId(1), code, ran_ms=5, halted=False, error="", last_words=words, was_struck=struck
    )
    reason, error = fate_of_command(ended, "convert", memory)
    return end_of(reason=reason, error=error, exit_code=code)


SAME = {
    "another message": (raised(ValueError("a 1")), raised(ValueError("b 2"))),
    "another line": (raised(ValueError("a")), raised(ValueError("a"), line=99)),
    "another folder": (raised(ValueError("a")), raised(ValueError("a"), folder="/opt/app")),
    "other numbers": (command("read 17 of 90 bytes"), command("read 3 of 91 bytes")),
    "another address": (command("at 0x7f3a21bc"), command("at 0xdeadbeef")),
    "another file": (command("cannot open /tmp/a/1.png"), command("cannot open /tmp/b/2.png")),
    "another id": (
        command("job 6ba7b810-9dad-11d1-80b4-00c04fd430c8 is gone"),
        command("job 0ba7b810-9dad-11d1-80b4-00c04fd430c9 is gone"),
    ),
    "another worker": (
        end_of(reason="worker_lost", error="worker w-17 is gone"),
        end_of(reason="worker_lost", error="worker gpu is gone", worker=WorkerId("gpu")),
    ),
    "another lease": (
        end_of(reason="lease_expired", error="the lease of worker a ended"),
        end_of(reason="lease_expired", error="the lease of worker b ended"),
    ),
}
OTHER = {
    "type": (raised(ValueError("a")), raised(KeyError("a"))),
    "way": (raised(ValueError("a")), end_of(error="ValueError: a")),
    "exit code": (command("no"), command("no", code=4)),
    "last words": (command("no such file"), command("permission denied")),
    "reason": (end_of(error="x"), end_of(error="x", reason="timed_out")),
}


@pytest.mark.parametrize("how", SAME)
def test_the_same_failure_with(how: str) -> None:
    one, other = SAME[how]
    assert of_end(one).mark == of_end(other).mark


@pytest.mark.parametrize("how", OTHER)
def test_another_failure_by_its(how: str) -> None:
    one, other = OTHER[how]
    assert of_end(one).mark != of_end(other).mark


def test_a_function_that_calls_itself_is_the_same_however_deep() -> None:
    frame = '  File "/a/walk.py", line 3, in walk\n    walk(x)\n'
    deep = [end_of(error="RecursionError: x", traceback=frame * depth) for depth in (2, 40)]
    assert len({of_end(end).mark for end in deep}) == 1


def test_the_title_tells_people_which_one_it_is() -> None:
    assert of_end(raised(ValueError("no pixels"))).title == (
        "ValueError images.py:open_image: no pixels"
    )
    assert of_end(command("a\nno such file")).title == "convert exited with code 3: no such file"
    assert len(of_end(end_of(error="x" * 9_000)).title) == 160


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=300), st.text(max_size=600), st.sampled_from(["failed", "worker_lost"]))
def test_any_text_at_all_has_a_mark(error: str, traceback: str, reason: str) -> None:
    found = of_end(end_of(error=error, traceback=traceback, reason=reason))
    assert len(found.mark) == LETTERS
    assert found == of_end(end_of(error=error, traceback=traceback, reason=reason))
    assert steady(steady(error)) == steady(error)


WHY = {
    Why.FAILED: raised(ValueError("a")),
    Why.TIMEOUT: end_of(reason="timed_out", error="it took longer than 5s"),
    Why.OOM: command("", code=-9, memory=1024, struck=True),
    Why.WORKER_LOST: end_of(reason="lease_expired"),
    Why.UNENCODABLE: raised(CannotEncode("the function returned a socket that cannot be sent")),
}


@pytest.mark.parametrize("why", WHY)
def test_the_reason_is_told_from_what_the_worker_said(why: Why) -> None:
    assert reason_of(WHY[why]) is why


def test_memory_is_the_cause_only_where_somebody_knows_it() -> None:
    assert reason_of(raised(MemoryError())) is Why.OOM
    assert reason_of(command("std::bad_alloc", code=1, memory=1024)) is Why.OOM
    reason, told = fate_of(-9, "")
    killed = end_of(reason=reason, error=told.error, exit_code=-9)
    assert reason_of(killed) is Why.WORKER_LOST
    assert reason_of(end_of(error="Trouble: MemoryError is a word")) is Why.FAILED


@pytest.mark.parametrize("cause", ["operator", "dependency", "unknown"])
def test_whoever_decided_is_the_reason(cause: str) -> None:
    event = e.TasksSetAside(
        job_id=JobId("j"), cause=cause, spans=(), ends=(), stopped=(), note="disk 3 is bad"
    )
    found = of_decision(event)
    assert found.why == cause
    assert found.mark == of_decision(msgspec.structs.replace(event, note="disk 4 is bad")).mark

"""Stalls with real threads and a real clock: found, ended, tried again."""

import json
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast import current, task
from holdfast.client.stalls import StallFound
from holdfast.coordinator.inspect import look_into
from holdfast.core import events as e

PATIENCE_S = 60
release = threading.Event()


@task(retries=1)
def hangs_once() -> int:
    """Tell of progress and hang, the first time."""
    context = current()
    context.progress(1)
    if context.attempt == 1:
        release.wait(PATIENCE_S)
    return context.attempt


@pytest.mark.slow
def test_001_70_an_attempt_that_hangs_is_ended_and_the_next_one_brings_the_result(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "state"
    release.clear()
    with holdfast.open(
        folder, workers=2, grace=0, stall_timeout="1s", stall_delay="100ms"
    ) as hf:
        handle = hf.submit(hangs_once)
        try:
            assert handle.result(timeout=PATIENCE_S) == 2
        finally:
            release.set()
    ends = [
        (told.record.command, end.reason)
        for told in look_into(folder).records()
        for event in told.record.events
        if isinstance(event, e.AttemptsReturned)
        for end in event.ends
    ]
    assert ends == [("RecoverStalled", "timed_out")]


@pytest.mark.slow
def test_001_56_a_person_lists_a_stall_approves_of_its_end_and_finds_nothing_more(
    begin_server, hand_of, typing
) -> None:
    options = ("--stall-timeout", "1s", "--stall-recovery", "ask", "--lease-term", "60s")
    server = begin_server(*options)
    call, hand = typing(server), hand_of(server)
    job_id = call("submit", "--", "true").out.strip()
    hand.take()
    name = f"{job_id}/0:1"
    while name not in (told := call("stall", "list").out):
        assert "STALL" in told or not told
    assert "lease_age" in told
    assert call("stall", "approve", "all").code == 2
    done = call("stall", "approve", name, "--reason", "nobody begins it")
    assert (done.code, done.err.splitlines()[-1]) == (0, "1 attempt was ended")
    assert call("stall", "approve", name).code == 1
    assert "nothing hangs" in call("stall", "list").err
    shown = json.loads(call("task", "show", f"{job_id}/0", "-o", "json").out)
    assert [each["reason"] for each in shown["attempts"]] == ["undelivered"]


@pytest.mark.slow
def test_001_97_asked_first_a_program_sees_the_stall_and_approves_of_its_end(
    tmp_path: Path,
) -> None:
    release.clear()
    with holdfast.open(
        tmp_path / "state", workers=2, grace=0, stall_timeout="1s", stall_recovery="ask",
        stall_delay="100ms",
    ) as hf:  # fmt: skip
        handle = hf.submit(hangs_once)
        try:
            found: list[StallFound] = []
            while not found:
                found = hf.stalls()
            (stall,) = found
            assert stall.kind == "no_progress"
            (done,) = hf.approve_stall(stall.id, reason="it is dead")
            assert done.outcome == "recovered"
            assert handle.result(timeout=PATIENCE_S) == 2
            assert hf.stalls() == []
        finally:
            release.set()

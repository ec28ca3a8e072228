"""Functions for tests to submit that speak with whoever runs them; they wait at named pipes."""

import os
import time
from typing import Any

from holdfast.client.task import task
from holdfast.worker.current import current
from holdfast.worker.errors import LeaseLost

PATIENCE_S = 60


def say(pipe: str, words: str) -> None:
    with open(pipe, "w") as out:
        out.write(words)


def hear(pipe: str) -> str:
    with open(pipe) as words:
        return words.read()


def ids(_: Any) -> list[Any]:
    ctx = current()
    return [ctx.attempt_id, ctx.token, ctx.worker, ctx.remaining is not None]


def promises(body: Any) -> str:
    name = current().effect("ledger", key="k", body=body)
    if body == "bad":
        raise ValueError("bad")
    return name


def logs(words: str) -> None:
    current().log.warning(words)


def tells(count: int) -> None:
    for done in range(count):
        current().progress(done + 1, count)


def commits(told: dict[str, str]) -> str:
    """`inside` is told when the block begins; `go` lets it end."""
    with open(told["ran"], "a") as ran:
        ran.write("prepared\n")
    try:
        with current().commit(result="committed"):
            with open(told["ran"], "a") as ran:
                ran.write("inside\n")
            say(told["inside"], str(os.getpid()))
            words = hear(told["go"])
            if words == "raise":
                raise OSError("the printer is on fire")
    except LeaseLost as error:
        say(told["inside"], f"lost: {error}")
        raise
    return "ignored"


def commits_when_let(gate: str, ran: str) -> None:
    """The first attempt waits before its commit; the next does not."""
    ctx = current()

    def note(step: str) -> None:
        with open(ran, "a") as trace:
            trace.write(f"{step} {ctx.attempt}\n")

    if ctx.attempt == 1:
        say(gate, str(os.getpid()))
        hear(gate)
    note("asks")
    try:
        with ctx.commit(result=ctx.attempt):
            note("inside")
    except LeaseLost:
        note("lost")
        raise


@task(retries=1, retry_delay="1ms")
def promises_each_time(path: str, sink: str) -> int:
    """Promise something in every attempt, and fail the first."""
    with open(path, "ab") as trace:
        trace.write(b".")
        tried = trace.tell()
    current().effect(sink, key="k", body={"try": tried})
    if tried == 1:
        raise RuntimeError("not yet")
    return tried


@task(stall_timeout="300ms")
def stalls() -> None:
    """Tell of progress, twice, and then nothing more."""
    current().progress(1, 3)
    current().progress(2, 3, "and then")
    time.sleep(PATIENCE_S)


@task(stall_timeout="4s")
def goes_on(seconds: float) -> str:
    """Take longer than a stall, and tell of it all the while. A stall is longer than a busy machine
    stands still."""
    give_up_at = time.monotonic() + seconds
    while time.monotonic() < give_up_at:
        current().progress(1)
        time.sleep(0.02)
    return "done"


def waits_for_its_verdict(told: dict[str, str]) -> None:
    """`begun` is told who asks for its commit; `ran` is there where it was given one."""
    say(told["begun"], str(os.getpid()))
    with current().commit(result=1), open(told["ran"], "a"):
        pass


def looks(told: dict[str, str]) -> str:
    """Works until it is asked to stop, and then does as it is told."""
    ctx = current()
    has_begun = False
    give_up_at = time.monotonic() + PATIENCE_S
    while not ctx.should_stop and time.monotonic() < give_up_at:
        if not has_begun:
            has_begun = True
            say(told["begun"], str(os.getpid()))
        time.sleep(0.01)
    say(told["stopped"], "told")
    if told["then"] == "raise":
        raise RuntimeError("half done")
    return "whole"


def looks_once(_: int) -> int:
    if current().should_stop:
        raise RuntimeError("nobody has asked")
    return os.getpid()


def never_looks(pipe: str) -> None:
    _ = current().token
    say(pipe, str(os.getpid()))
    time.sleep(PATIENCE_S)


def noop(n: int) -> int:
    return n

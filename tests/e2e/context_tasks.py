"""Tasks that speak with whoever runs them, for tests with real processes."""

import os
import signal
import time
from typing import Any

import holdfast

PATIENCE_S = 60


def say(pipe: str, words: str) -> None:
    with open(pipe, "w") as out:
        out.write(words)


def hear(pipe: str) -> str:
    with open(pipe) as words:
        return words.read()


def ids(_: Any) -> list[Any]:
    ctx = holdfast.current()
    return [ctx.attempt_id, ctx.token, ctx.worker, ctx.remaining is not None]


def promises(body: Any) -> str:
    name = holdfast.current().effect("ledger", key="k", body=body)
    if body == "bad":
        raise ValueError("bad")
    return name


def logs(words: str) -> None:
    holdfast.current().log.warning(words)


def tells(count: int) -> None:
    for done in range(count):
        holdfast.current().progress(done + 1, count)


def commits(told: dict[str, str]) -> str:
    """`inside` is told when the block begins; `go` lets it end."""
    with open(told["ran"], "a") as ran:
        ran.write("prepared\n")
    try:
        with holdfast.current().commit(result="committed"):
            with open(told["ran"], "a") as ran:
                ran.write("inside\n")
            say(told["inside"], str(os.getpid()))
            words = hear(told["go"])
            if words == "raise":
                raise OSError("the printer is on fire")
    except holdfast.errors.LeaseLost as error:
        say(told["inside"], f"lost: {error}")
        raise
    return "ignored"


def dies_before_its_verdict(pipe: str) -> None:
    with open(pipe, "a"):
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with holdfast.current().commit(result=1):
            say(pipe, "inside")


def looks(told: dict[str, str]) -> str:
    """Works until it is asked to stop, and then does as it is told."""
    ctx = holdfast.current()
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
    if holdfast.current().should_stop:
        raise RuntimeError("nobody has asked")
    return os.getpid()


def never_looks(pipe: str) -> None:
    _ = holdfast.current().token
    say(pipe, str(os.getpid()))
    time.sleep(PATIENCE_S)


def noop(n: int) -> int:
    return n

"""Tasks that stage files, for tests: importable by every child."""

import os
import signal
from pathlib import Path

from holdfast.client.task import task
from holdfast.testing.chores import mark
from holdfast.worker.current import current


def write(path: str, text: str) -> str:
    with current().stage(path) as file:
        file.write(text)
    return text


def write_numbered(item: tuple[int, str]) -> int:
    number, path = item
    write(path, str(number))
    return number


def write_and_wait(path: str, pipe: str) -> None:
    """Stage a file, then wait until somebody opens the other end of the pipe."""
    write(path, "whole")
    Path(pipe).read_bytes()


@task(retries=3, retry_delay="1ms")
def write_at_second_try(path: str, tried: str) -> int:
    """The first try stages its file and raises."""
    found = mark(tried)
    write(path, f"try {found}")
    if found == 1:
        raise RuntimeError("not yet")
    return found


@task(max_losses=5)
def write_and_die_once(path: str, tried: str) -> int:
    """The first try stages its file and is killed."""
    found = mark(tried)
    write(path, f"try {found}")
    if found == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return found


def write_after_committing(path: str) -> str:
    """What is asked too late is refused; the answer is how."""
    ctx = current()
    with ctx.commit(result="committed"):
        try:
            with ctx.stage(path) as file:
                file.write("late")
        except Exception as error:  # noqa: BLE001 - what it says is what the test is about
            Path(f"{path}.refused").write_text(str(error))
    return "ignored"

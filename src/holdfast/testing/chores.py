"""Small functions for tests to submit: importable by every child, and told apart by what they do.

Those that wait do so at named pipes, which work between threads and processes alike: opening one
end blocks until somebody opens the other. No test has to guess how long something takes.
"""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from holdfast.client.task import task
from holdfast.worker.seat import current_job

MOMENT_S = 0.02


def square(n: int) -> int:
    return n * n


def add(first: int, second: int = 0, *, third: int = 0) -> int:
    return first + second + third


def labour(n: int) -> int:
    """A square that takes a moment, so that a kill may meet it under way."""
    time.sleep(0.004)
    return n * n


def fail(n: int) -> None:
    raise ValueError(f"bad item {n}")


@task(retries=0)
def scribble(garbage: bytes) -> None:
    """Write into whatever is open in this process, its own or not."""
    for descriptor in range(3, 64):
        with suppress(OSError):
            os.write(descriptor, garbage)


def fail_when_odd(n: int) -> int:
    if n % 2:
        raise ValueError(f"bad item {n}")
    return n


@task(retries=5, retry_delay="1ms")
def fail_before(path: str, times: int) -> int:
    """Raise so many times, counting in a file; then say how often it was tried."""
    tried = mark(path)
    if tried <= times:
        raise RuntimeError(f"not yet: try {tried}")
    return tried


def whose() -> str:
    """The job that this runs for."""
    return current_job()


def mark(path: str) -> int:
    """Add a byte to a file; how many it has now."""
    with open(path, "ab") as trace:
        trace.write(b"x")
        trace.flush()
        return os.fstat(trace.fileno()).st_size


def wait_at(pipe: str) -> str:
    """Wait until somebody writes into the pipe, and return what it was."""
    return Path(pipe).read_text(encoding="utf-8")


def tell_and_wait(here: str, there: str) -> str:
    """Say at one pipe that we have begun, then wait at the other."""
    Path(here).write_text("begun", encoding="utf-8")
    return wait_at(there)


def tell_and_hang(here: str) -> None:
    """Say that we have begun, and never return."""
    Path(here).write_text("begun", encoding="utf-8")
    threading.Event().wait()


def crowd(n: int, diary: str) -> int:
    """Write down when we come and when we go."""
    fd = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, b"+")
        time.sleep(0.002)
        os.write(fd, b"-")
    finally:
        os.close(fd)
    return n


def crowd_pair(pair: tuple[int, str]) -> int:
    return crowd(*pair)


def most_at_once(diary: Path) -> int:
    """How many were there together, at most, by what they wrote."""
    here = most = 0
    for sign in diary.read_text(encoding="ascii"):
        here += 1 if sign == "+" else -1
        most = max(most, here)
    return most


def die(code: int) -> None:
    os._exit(code)


def kill_the_program(n: int) -> None:
    """End the process this runs in, as an outside force would."""
    os.kill(os.getpid(), signal.SIGKILL)


def double(index: int, offset: int = 0) -> int:
    return 2 * index + offset


async def later(n: int) -> int:
    return n + 1


def echo(text: str) -> str:
    return text


def fail_once(trace: tuple[str, int]) -> int:
    """Raise at the first try where the second part says so; which try it was."""
    tried = mark(trace[0])
    if tried <= trace[1]:
        raise RuntimeError("not yet")
    return tried


def leave_a_mark(pair: tuple[str, int]) -> int:
    """Write down that this ran, in a file of this process, then take a moment and answer."""
    folder, n = pair
    with Path(folder, str(os.getpid())).open("a", encoding="utf-8") as marks:
        marks.write(f"{n}\n")
    time.sleep(MOMENT_S)
    return n * n


def speak(n: int) -> int:
    """Says something on both of its streams."""
    sys.stdout.write(f"{n} is said\n")
    sys.stderr.write(f"{n} is whispered\n")
    return n


def filler(n: int, size: int) -> bytes:
    """So many bytes, which are told apart by `n`."""
    return bytes([n % 256]) * size


def filler_of(item: tuple[int, int]) -> bytes:
    return filler(*item)

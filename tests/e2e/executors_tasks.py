"""What the tasks of the executor tests do. Children load this file by its path."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any


def noop(n: int) -> int:
    return n


def where(n: int) -> list[int]:
    return [n, os.getpid()]


def big(size: int) -> bytes:
    return b"x" * size


def fails(n: int) -> None:
    raise ValueError(f"bad {n}")


def leaves(code: int) -> None:
    sys.exit(code)


def unsendable(n: int) -> object:
    return object()


async def later(n: int) -> int:
    await asyncio.sleep(0)
    return n + 1


def say(pipe: str, words: str) -> None:
    """Tell the test something: it waits at the other end of the pipe."""
    with open(pipe, "w") as out:
        out.write(words)


def mark(path: str) -> None:
    """Leave a trace of having run."""
    with open(path, "ab") as trace:
        trace.write(b"x")


def forks(how: str) -> int:
    """Make a copy of this process that comes back from the task as well; tell how it ended."""
    copy = os.fork()  # noqa: TID251 - a user may do what we do not
    if copy == 0:
        if how == "exits":
            sys.exit(3)
        if how == "fails":
            raise ValueError("in the copy")
        return 0
    return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])


def hold(pipe: str) -> None:
    """Say who we are, and never return."""
    say(pipe, str(os.getpid()))
    threading.Event().wait()


def spin(pipe: str) -> None:
    say(pipe, str(os.getpid()))
    while True:
        pass


def spin_deaf(pipe: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    spin(pipe)


def hold_with_program(pipe: str) -> None:
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    say(pipe, str(program.pid))
    program.wait()


def until_told(pipes: list[str]) -> str:
    """Say that we have begun, then wait for a word to return."""
    say(pipes[0], str(os.getpid()))
    with open(pipes[1]) as words:
        return words.read()


def dies(how: Any) -> None:
    if how == "segfault":
        ctypes.string_at(0)
    elif how == "abort":
        os.abort()
    elif how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        os._exit(how)


def dies_or_returns(n: int) -> int:
    if n < 0:
        os._exit(-n)
    return n


def bearings(n: int) -> dict[str, str]:
    """What this task is told about itself, and a program that it starts."""
    here = {name: value for name, value in os.environ.items() if name.startswith("HOLDFAST_")}
    code = "import os; print(os.environ['HOLDFAST_LEASE_ID'], end='')"
    there = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return {**here, "told a program": there.stdout.decode()}


def watch_bearings(pipe: str) -> str:
    """Leave somebody behind who says what is there once no task is."""

    def wait() -> None:
        give_up_at = time.monotonic() + 30
        while "HOLDFAST_LEASE_ID" in os.environ and time.monotonic() < give_up_at:
            time.sleep(0.001)
        left = [name for name in os.environ if name.startswith("HOLDFAST_TASK")]
        say(pipe, ",".join(left) or "nothing")

    threading.Thread(target=wait, daemon=True).start()
    return os.environ["HOLDFAST_LEASE_ID"]

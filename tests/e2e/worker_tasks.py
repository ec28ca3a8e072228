"""What the tasks of the worker tests do. Children load this file by its path."""

import os
import signal
import subprocess
import time
from pathlib import Path


def double(n: int) -> int:
    return 2 * n


def fails(n: int) -> None:
    raise ValueError(f"bad {n}")


def note(path: str) -> int:
    """Say that it began, start something, and go on when the file `path.go` is there."""
    started = subprocess.Popen(["sleep", "1000"])
    Path(f"{path}.started").write_text(f"{started.pid}\n")
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")
    while not Path(f"{path}.go").exists():
        time.sleep(0.01)
    started.kill()
    started.wait()
    return os.getpid()


def forever(path: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")
    while True:
        signal.pause()

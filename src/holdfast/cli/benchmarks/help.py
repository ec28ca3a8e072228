"""What the command line costs before it does anything: processor time of `holdfast --help`."""

import os
import sys
from pathlib import Path
from statistics import median

from holdfast.cli.benchmarks.row import Figure, Row, RowFailed, Values, at_most, main

COMMAND = (sys.executable, "-m", "holdfast", "--help")


def run(size: int, folder: Path) -> Values:
    return {"cpu": median([_cpu_ms() for _ in range(size)])}


def _cpu_ms() -> float:
    """Of the whole process, in the kernel too, from its own account when it ends."""
    silence = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(COMMAND[0], COMMAND, os.environ, file_actions=silence)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        raise RowFailed(f"`holdfast --help` ended with {os.waitstatus_to_exitcode(status)}")
    return 1_000 * (usage.ru_utime + usage.ru_stime)


ROW = Row(
    name="help",
    what="`holdfast --help`",
    figures=(Figure("cpu", "processor time, interpreter included", "ms", at_most(120)),),
    size=15,
    quick_size=3,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))

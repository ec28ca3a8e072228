"""A program that writes a file from a task and may die in the middle of it.

    python -m holdfast.testing.torn FOLDER HOW FATE

HOW is `plain`, as one would without thinking, or `staged`. FATE is `dies` or `lives`.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Final

import holdfast

KEY: Final = "report"
HALF: Final = "x" * 100_000
NEW: Final = HALF + HALF + "\n"
OLD: Final = "as it was\n"


def write(target: str, how: str) -> int:
    """Half of it, and then the other half."""
    begin = holdfast.current().stage if how == "staged" else open
    opened = begin(target, "w")
    with opened as file:
        file.write(HALF)
        file.flush()
        if os.environ.get("HOLDFAST_TEST_FATE") == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        file.write(HALF + "\n")
    return len(NEW)


def main() -> None:
    folder, how, fate = sys.argv[1:]
    os.environ["HOLDFAST_TEST_FATE"] = fate
    with holdfast.open(Path(folder) / "state", workers=1) as hf:
        hf.submit(write, str(Path(folder) / "report.txt"), how, key=KEY).result(60)


if __name__ == "__main__":
    main()

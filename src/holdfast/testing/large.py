"""A program that makes one large result and dies at a named step of storing it, or does not.

    python -m holdfast.testing.large FOLDER EXECUTOR STEP

It prints the digest of what `result()` gave. The steps are those between the end of a task and the
record of its commit; `whole` is none of them.
"""

import os
import signal
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal

import holdfast
from holdfast.wire.contents import Arrival, Contents

KEY: Final = "large"
STEP_VARIABLE: Final = "HOLDFAST_TEST_STEP"
STEPS: Final[dict[str, tuple[type[Any], str, str]]] = {
    "nothing is written": (Arrival, "write", "before"),
    "it is written": (Arrival, "write", "after"),
    "it is on the disk": (Arrival, "seal", "after"),
    "it has its name": (Contents, "place", "after"),
    "its name is on the disk": (Contents, "settle", "after"),
    "it is stored": (Contents, "keep", "after"),
}
"""Where, and on which side of it, the process that stores the result is killed."""


def arm(step: str) -> None:
    """Have this process die at the step, by its own hand and at once."""
    owner, name, side = STEPS[step]
    plain = getattr(owner, name)

    def strike(*args: Any) -> Any:
        if side == "before":
            _die()
        plain(*args)
        _die()

    setattr(owner, name, strike)


def _die() -> None:
    os.kill(int(os.environ.get("HOLDFAST_TEST_VICTIM", os.getpid())), signal.SIGKILL)
    signal.pause()


def make(trace: str) -> bytes:
    """Something large that no other attempt makes."""
    step = os.environ.get(STEP_VARIABLE, "")
    if step:
        arm(step)
    with open(trace, "ab") as file:
        file.write(b"x")
    return os.urandom(200_000)


def main() -> None:
    folder, executor, step = sys.argv[1:]
    if step in STEPS:
        os.environ[STEP_VARIABLE] = step
        # Where children run the tasks, this program dies with the one that stores the result.
        os.environ["HOLDFAST_TEST_VICTIM"] = str(os.getpid())
    kind: Literal["threads", "processes"] = "threads" if executor == "threads" else "processes"
    with holdfast.open(folder, executor=kind, workers=1) as hf:
        content = hf.submit(make, str(Path(folder).with_suffix(".trace")), key=KEY).result(60)
        sys.stdout.write(f"{blake2b(content, digest_size=16).hexdigest()}\n")


if __name__ == "__main__":
    main()

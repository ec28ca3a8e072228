"""Waiting in tests of real processes: for something to be so, and never for a while to pass."""

import time
from collections.abc import Callable
from typing import Final

PATIENCE_S: Final = 60
LOOK_S: Final = 0.01


def until(is_so: Callable[[], bool]) -> None:
    """Look again and again until it is so; whoever waits in vain is told."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() >= give_up_at:
            raise AssertionError("it did not come to that")
        time.sleep(LOOK_S)

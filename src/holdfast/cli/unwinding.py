"""Being told to stop between two steps that belong together.

A signal that unwinds the program may arrive after a folder is made or a process is started and
before anybody has noted that it must go again. Here such a pair is one step.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

STOPS: Final = frozenset({signal.SIGINT, signal.SIGTERM})


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that stop the program wait until the end of this block, and unwind it from there.

    Whatever is made inside must be known to a context outside. A process that is started inside
    holds the same signals back until it calls `heed`.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def heed() -> None:
    """Hear those signals again, in a process that was started uninterrupted."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)

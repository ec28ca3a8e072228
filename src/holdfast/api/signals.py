"""What an operator says to a running server by signal."""

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from logging import getLogger
from typing import Final

from holdfast.coordinator.serving import Served

log = getLogger("holdfast")

ENDING: Final = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """The wish to end, told by a signal. The second one is obeyed at once."""

    def __init__(self, at_once: Callable[[], None]) -> None:
        self.wanted = asyncio.Event()
        self._at_once = at_once

    def signalled(self, number: int) -> None:
        if self.wanted.is_set():
            self._at_once()
            os._exit(128 + number)
        self.wanted.set()


@contextmanager
def obeyed(
    at_once: Callable[[], None], reload: Callable[[], None], dump: Callable[[], None]
) -> Iterator[Stop]:
    """SIGTERM and SIGINT end, SIGHUP reads files again, SIGUSR1 tells how it is."""
    loop = asyncio.get_running_loop()
    stop = Stop(at_once)
    for number in ENDING:
        loop.add_signal_handler(number, stop.signalled, number)
    loop.add_signal_handler(signal.SIGHUP, reload)
    loop.add_signal_handler(signal.SIGUSR1, dump)
    try:
        yield stop
    finally:
        for number in (*ENDING, signal.SIGHUP, signal.SIGUSR1):
            loop.remove_signal_handler(number)


def dump(served: Served) -> None:
    """Where everything stands, on stderr: numbers of the state, tasks of the loop, all stacks."""
    state = served.coordinator.state
    leases = sum(len(holder.leases) for holder in state.holders.values())
    log.warning(
        "position %d, durable %d, %d jobs, %d leases, %d workers, %d tasks on the loop",
        state.position,
        served.log.durable,
        len(state.jobs),
        leases,
        len(served.exchanges.workers),
        len(asyncio.all_tasks()),
    )
    with suppress(OSError, ValueError, AttributeError):
        # Where stderr is closed, or is no file, there is nowhere to write the stacks.
        faulthandler.dump_traceback(sys.stderr, all_threads=True)

"""What the death of a child says about the task it was in."""

import os
import signal
from typing import Final

from holdfast.core.quarantine import RAN_OUT, TOOK_TOO_MUCH
from holdfast.worker.errands import Ended
from holdfast.worker.troubles import ERROR_BYTES_MAX, TRACEBACK_BYTES_MAX, Trouble, bounded, is_ours

# Signals that come from somebody else: an operator, the kernel short of memory, a shutdown.
FROM_OUTSIDE: Final = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
)

# What programs say when they are given no more memory.
_MEMORY_CRIES: Final = ("MemoryError", "annot allocate memory", "bad_alloc", "out of memory")


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ending(code: int) -> str:
    """How a process ended, in words."""
    return f"died: {signal_name(-code)}" if code < 0 else f"exited with code {code}"


def fate_of(code: int, crash: str) -> tuple[str, Trouble]:
    """The reason and the account for the task that was running when its process ended.

    A crash or an exit is the task's own doing. A kill from outside is not: it may have struck an
    innocent, so it counts as a loss.
    """
    if code < 0 and -code in FROM_OUTSIDE:
        cause = "out of memory, or by hand" if -code == signal.SIGKILL else "from outside"
        error = f"the process running it was killed ({signal_name(-code)}): {cause}"
        reason = "worker_lost"
    else:
        error = f"the process running it {ending(code)}"
        reason = "failed"
    return reason, Trouble(
        error=bounded(error, ERROR_BYTES_MAX),
        traceback=bounded(crash, TRACEBACK_BYTES_MAX),
        exit_code=code,
    )


def fate_of_command(ended: Ended, program: str, memory_bytes: int) -> tuple[str, str]:
    """What became of a command that did not end well, and what is told of it. Its own exit is its
    own doing, and so is a kill for taking more memory than it asked for; a kill from outside may
    have struck an innocent, and counts as a loss."""
    code, reason = ended.code, "failed"
    if code is None:
        headline = f"{program} could not be started: {ended.error}"
    elif ended.was_struck:
        headline = f"{program} {TOOK_TOO_MUCH} the {memory_bytes} bytes it may have; it "
        headline += ending(code)
    elif code < 0 and -code in FROM_OUTSIDE:
        reason = "worker_lost"
        cause = "out of memory, or by hand" if -code == signal.SIGKILL else "from outside"
        headline = f"{program} was killed ({signal_name(-code)}): {cause}"
    elif memory_bytes and any(cry in ended.last_words for cry in _MEMORY_CRIES):
        headline = f"{program} {RAN_OUT}, of which it has {memory_bytes} bytes; it "
        headline += ending(code)
    else:
        headline = f"{program} {ending(code)}"
    return reason, f"{headline}\n{ended.last_words}" if ended.last_words else headline


def crash_report(descriptor: int) -> str:
    """The last words of a crashed interpreter, without our own frames; then the page is blank."""
    size = os.fstat(descriptor).st_size
    text = os.pread(descriptor, size, 0).decode("utf-8", "replace")
    os.ftruncate(descriptor, 0)
    # The position is shared with the children: the next one writes from the start again.
    os.lseek(descriptor, 0, os.SEEK_SET)
    return "".join(line for line in text.splitlines(keepends=True) if not _is_our_frame(line))


def _is_our_frame(line: str) -> bool:
    _, quote, rest = line.partition('File "')
    return bool(quote) and is_ours(rest.partition('"')[0])

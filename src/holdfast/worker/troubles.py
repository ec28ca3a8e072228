"""What went wrong in user code, as text: short enough to record, and about the user's code alone.

An error comes from code we do not know. It may refuse to be printed, be megabytes long or hold
characters no log can store; describing it must never be a second failure.
"""

import os
import traceback
from typing import Final

from msgspec import Struct

ERROR_BYTES_MAX: Final = 4 * 1024
TRACEBACK_BYTES_MAX: Final = 32 * 1024

_OUR_FOLDER: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep
_MACHINERY: Final = ("<frozen importlib", "<frozen runpy")
_EVENT_LOOP: Final = tuple(
    os.path.join(os.path.dirname(os.__file__), "asyncio", name)
    for name in ("runners.py", "base_events.py", "events.py")
)


class Trouble(Struct, frozen=True, gc=False):
    """How an attempt failed: one line, the user's part of the stack, and the code it left with."""

    error: str
    traceback: str
    exit_code: int | None


def describe(error: BaseException) -> Trouble:
    """The account of an exception that user code raised. Never raises itself."""
    return Trouble(
        error=bounded(_headline(error), ERROR_BYTES_MAX),
        traceback=bounded(_stack(error), TRACEBACK_BYTES_MAX),
        exit_code=_exit_code(error),
    )


def bounded(text: str, bytes_max: int) -> str:
    """`text` in at most `bytes_max` bytes of UTF-8; of a longer one the head and the tail stay."""
    raw = text.encode("utf-8", "backslashreplace")
    if len(raw) <= bytes_max:
        return raw.decode("utf-8")
    # The mark is given room for any count, so the bound holds whatever is left out.
    room = bytes_max - 48
    head = raw[: room // 2].decode("utf-8", "ignore")
    tail = raw[len(raw) - (room - room // 2) :].decode("utf-8", "ignore")
    return f"{head}\n… {len(raw) - room} bytes left out …\n{tail}"


def is_ours(filename: str) -> bool:
    """Whether a stack frame belongs to the machinery and not to the user."""
    return filename.startswith((_OUR_FOLDER, *_MACHINERY)) or filename in _EVENT_LOOP


def _name(error: BaseException) -> str:
    # Read past the class of the class, which is the user's code too.
    return str(type.__dict__["__name__"].__get__(type(error)))


def _headline(error: BaseException) -> str:
    name = _name(error)
    try:
        message = str(error)
        return f"{name}: {message}" if message else name
    except BaseException:  # noqa: BLE001 - the message is the user's code too
        return f"{name}: (its message could not be read)"


def _stack(error: BaseException) -> str:
    try:
        told = traceback.TracebackException.from_exception(error)
        _drop_our_frames(told, set())
        return "".join(told.format())
    except BaseException:  # noqa: BLE001 - formatting calls into the exception as well
        return f"{_name(error)} (its traceback could not be read)\n"


def _drop_our_frames(told: traceback.TracebackException, seen: set[int]) -> None:
    if id(told) in seen:
        return
    seen.add(id(told))
    kept = [frame for frame in told.stack if not is_ours(frame.filename)]
    told.stack = traceback.StackSummary.from_list(kept)
    for other in (told.__cause__, told.__context__, *(told.exceptions or ())):
        if other is not None:
            _drop_our_frames(other, seen)


def _exit_code(error: BaseException) -> int | None:
    """The code Python itself would leave with: text given to `sys.exit` means 1."""
    if not isinstance(error, SystemExit):
        return None
    try:
        code = error.code
    except BaseException:  # noqa: BLE001 - a subclass may make even this a riddle
        return 1
    if code is None:
        return 0
    if not isinstance(code, int):
        return 1
    # A process can leave with no more than a byte; a larger number was cut down to that.
    number = int.__index__(code)
    return number if abs(number) < 2**31 else number & 0xFF

"""What went wrong, in words that name the next command, and the exit code that says so.

Whatever is not listed here is a bug of ours and keeps its traceback.
"""

import sys
from contextlib import suppress
from typing import Final

import click

REFUSED: Final = 1
USAGE: Final = 2
CANCELLED: Final = 3
NOT_FOUND: Final = 4
CONFLICT: Final = 5
NOT_ALLOWED: Final = 6
IN_USE: Final = 75
TRY_AGAIN: Final = 75
TIMED_OUT: Final = 124
INTERRUPTED: Final = 130

# How a refusal of the coordinator is told to the shell; what is not here is a conflict.
CODES: Final = {
    "not_found": NOT_FOUND,
    "gone": NOT_FOUND,
    "invalid": USAGE,
    "malformed": USAGE,
    "too_large": USAGE,
    "unauthenticated": NOT_ALLOWED,
    "forbidden": NOT_ALLOWED,
    "rate_limited": TRY_AGAIN,
    "not_ready": TRY_AGAIN,
    "queue_full": TRY_AGAIN,
    "disk_low": TRY_AGAIN,
    "disk_full": TRY_AGAIN,
    "disk_slow": TRY_AGAIN,
    "internal": REFUSED,
    "damaged": REFUSED,
    "unschedulable": REFUSED,
    "unknown": REFUSED,
    "method_not_allowed": REFUSED,
    "unsupported_media_type": REFUSED,
}

ADVICE: Final = {
    "unauthenticated": (
        "Name the file of a token with --token-file or HOLDFAST_TOKEN_FILE; `holdfast doctor` says "
        "which one is used."
    ),
    "forbidden": "`holdfast token create NAME --scope SCOPE` makes one that may.",
    "damaged": "`holdfast doctor --data DIR`, where the server is, looks at everything.",
    "rate_limited": "Try again in a moment.",
    "queue_full": "Try again in a moment.",
    "unknown": "`holdfast doctor` says who answers there.",
    "method_not_allowed": "`holdfast doctor` compares the versions.",
}
"""What to do about an answer of the server that does not say so itself."""


# A group named without a command; click before 8.2 prints its help by itself.
NO_ARGUMENTS: Final = getattr(click.exceptions, "NoArgsIsHelpError", ())


class Trouble(Exception):
    """Something the user can act on: what is wrong, and what to type next."""

    def __init__(self, message: str, code: int = REFUSED) -> None:
        super().__init__(message)
        self.code = code


def report(error: BaseException) -> int:
    """Tell the user on stderr, in one or two lines; the exit code. A bug is raised again."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return _tell("interrupted", INTERRUPTED)
    if isinstance(error, Trouble):
        return _tell(str(error), error.code)
    if isinstance(error, click.UsageError):
        return _usage(error)
    if isinstance(error, click.ClickException):
        return _tell(error.format_message(), error.exit_code)
    if type(error).__module__.startswith("holdfast.wire."):
        return _of_the_server(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return _tell(f"{where}{error.strerror or error}. Check it and try again.", REFUSED)
    return _ours(error)


def _of_the_server(error: BaseException) -> int:
    """What a server said no to, or that it said nothing."""
    from holdfast.wire.http import Rejected, Unreachable

    if isinstance(error, Unreachable):
        return _tell(str(error), TRY_AGAIN)
    if not isinstance(error, Rejected):
        return _ours(error)
    return _tell(advised(str(error), error.problem.code), code_of(error.problem.code))


def advised(said: str, code: str) -> str:
    """Why the server said no, and what to do about it."""
    advice = ADVICE.get(code, "")
    if not advice:
        return said
    return f"{said}{'' if said.endswith('.') else '.'} {advice}"


def code_of(code: str) -> int:
    """The exit code for a refusal by its stable name."""
    return CODES.get(code, CONFLICT)


def _ours(error: BaseException) -> int:
    """The kinds of trouble that Holdfast itself raises; imported only when there is one."""
    from holdfast.client import errors as client
    from holdfast.coordinator.inspect import NoLog
    from holdfast.core.errors import BrokenInvariant, OperatingError

    if isinstance(error, client.Refused):
        return _tell(str(error), code_of(error.code))
    if isinstance(error, client.LogInUse):
        return _tell(str(error), IN_USE)
    if isinstance(error, NoLog):
        return _tell(str(error), NOT_FOUND)
    if isinstance(error, OperatingError | client.HoldfastError):
        return _tell(str(error), REFUSED)
    if isinstance(error, BrokenInvariant):
        return _tell(
            f"{error}. That cannot be, so nothing was done. "
            "`holdfast log verify DIR` says how far the history is good.",
            REFUSED,
        )
    raise error


def _usage(error: click.UsageError) -> int:
    if isinstance(error, NO_ARGUMENTS):
        # Nothing is wrong yet: somebody wants to know what there is to type.
        say(error.format_message())
        return USAGE
    context = error.ctx
    lines = [error.format_message()]
    if context is not None:
        lines.append(f"See `{context.command_path} --help`.")
    return _tell("\n".join(lines), USAGE)


def _tell(message: str, code: int) -> int:
    first, *rest = message.splitlines() or [""]
    say("\n".join([f"holdfast: {first}", *rest]))
    return code


def say(text: str) -> None:
    """A line for a person, on stderr. Where that is closed it is lost: it never mixes with data."""
    if sys.stderr is not None:
        with suppress(BrokenPipeError):
            print(text, file=sys.stderr, flush=True)

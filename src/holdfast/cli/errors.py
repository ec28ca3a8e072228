"""What went wrong, in words that name the next command, and the exit code that says so.

Whatever is not listed here is a bug of ours and keeps its traceback.
"""

import sys
from contextlib import suppress
from typing import Final

import click

REFUSED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 4
CONFLICT: Final = 5
IN_USE: Final = 75
INTERRUPTED: Final = 130

# How a refusal of the coordinator is told to the shell; what is not here is a conflict.
CODES: Final = {"not_found": NOT_FOUND, "gone": NOT_FOUND, "invalid": USAGE, "too_large": USAGE}


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
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return _tell(f"{where}{error.strerror or error}. Check it and try again.", REFUSED)
    return _ours(error)


def _ours(error: BaseException) -> int:
    """The kinds of trouble that Holdfast itself raises; imported only when there is one."""
    from holdfast.client import errors as client
    from holdfast.coordinator.inspect import NoLog
    from holdfast.core.errors import BrokenInvariant, OperatingError

    if isinstance(error, client.Refused):
        return _tell(str(error), CODES.get(error.code, CONFLICT))
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

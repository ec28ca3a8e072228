"""What can go wrong with a log folder, each in words a person can act on.

OperatingError
├── LogFailed      (core) a write or sync failed: nothing more is acknowledged
├── LogDamaged     bytes that were once safe are no longer what was written
├── LogInUse       another program holds the folder
├── NewerFormat    a later version of Holdfast wrote this folder
├── HistoryGone    the position asked for lies in a dropped segment
└── DiskFull       there is no room for the next segment; nothing was written, nothing is lost
"""

from pathlib import Path
from shlex import quote

from holdfast.core.errors import OperatingError


class LogDamaged(OperatingError):
    """Bytes that were once safe are not what was written. Nothing was changed.

    Opening refuses rather than cutting, because whatever is cut may have been acknowledged.
    """

    def __init__(self, file: Path, offset: int, why: str) -> None:
        self.file = file
        self.offset = offset
        self.why = why
        folder = file.parent.parent
        super().__init__(
            f"{file} is damaged at byte {offset}: {why}. Nothing was changed. "
            f"Run `holdfast log verify {quote(str(folder))}` to see how far the history is good."
        )


class LogInUse(OperatingError):
    """Another program holds the folder: a log has one writer."""

    def __init__(self, path: Path, owner: str) -> None:
        self.path = path
        self.owner = owner
        super().__init__(
            f"{path} is in use by {owner}. Stop it first, or look without a lock: "
            f"`holdfast job list --data {quote(str(path))}`."
        )


class NewerFormat(OperatingError):
    """A later version wrote this; reading it with older eyes could only misread it."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        self.path = path
        self.found = found
        self.known = known
        super().__init__(
            f"{path} has format {found}; this Holdfast knows formats up to {known}. "
            f"Upgrade first: `pip install --upgrade holdfast`."
        )


class HistoryGone(OperatingError):
    """The position lies before the oldest kept history. A snapshot stands for what is gone."""

    def __init__(self, oldest: int) -> None:
        self.oldest = oldest
        super().__init__(
            f"history before position {oldest} is no longer kept. Ask from {oldest} on: "
            f"`holdfast transactions --at {oldest}`."
        )


class DiskFull(OperatingError):
    """No room for the next segment. Nothing was written and the log is healthy.

    The same call succeeds once space has returned.
    """

    def __init__(self, path: Path, needed: int) -> None:
        self.path = path
        self.needed = needed
        super().__init__(
            f"the disk that holds {path} has no room for {needed} more bytes. "
            f"Free some space and go on; `holdfast log stats` shows what the log takes."
        )

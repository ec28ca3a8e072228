"""Requests about declared resources.

`expects` is the version that whoever asks has seen: zero where there must be none of this name,
None where any will do. It is compared before anything else is judged.
"""

from typing import Final

from holdfast.core.command import Command
from holdfast.core.ids import Position
from holdfast.core.resource import Pairs


class PutResource(Command, frozen=True, kw_only=True):
    """Declare something, or declare it anew. Labels and annotations that it does not name go, and
    they alone are no new generation."""

    kind: str
    name: str
    spec: bytes
    expects: Position | None = None
    labels: Pairs = ()
    annotations: Pairs = ()


class PutResourceStatus(Command, frozen=True, kw_only=True):
    """Tell how far a resource has come."""

    kind: str
    name: str
    status: bytes
    expects: Position | None = None


class SetResourceFinalizers(Command, frozen=True, kw_only=True):
    """Say who has to clean up before the resource may go. One that is marked as deleted goes in
    the same record as the last of them, and gets no new ones."""

    kind: str
    name: str
    finalizers: tuple[str, ...]
    expects: Position | None = None


class MarkResourceDeleted(Command, frozen=True, kw_only=True):
    """Have a resource go: at once, or when nobody has to clean up any more."""

    kind: str
    name: str
    expects: Position | None = None


RESOURCE_COMMANDS: Final[tuple[type[Command], ...]] = (
    PutResource,
    PutResourceStatus,
    SetResourceFinalizers,
    MarkResourceDeleted,
)

"""A declared thing: what somebody wants to be there, and how far it has come.

The core keeps both as bytes and knows neither: whoever declares a kind of resources reads and
writes them. What it does know is which change came last, so that two writers cannot overwrite each
other unseen, and who still has to clean up before a resource may go.
"""

from typing import Final

from msgspec import Struct

from holdfast.core.ids import NEVER, Instant, Position

ResourceKey = tuple[str, str]
"""The kind and the name."""

SPEC_BYTES_MAX: Final = 256 * 1024
STATUS_BYTES_MAX: Final = 256 * 1024
RESOURCES_MAX: Final = 10_000
FINALIZERS_MAX: Final = 16


class Resource(Struct, array_like=True, kw_only=True):
    """`generation` counts how often the spec was changed, and nothing else raises it; `version` is
    the position of the last record that changed anything. One that is marked as deleted, at
    `deleted_at`, goes with the last of its `finalizers`."""

    kind: str
    name: str
    spec: bytes
    generation: int
    version: Position
    created_at: Instant
    status: bytes = b""
    deleted_at: Instant = NEVER
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> ResourceKey:
        return self.kind, self.name


def resource_id(kind: str, name: str) -> str:
    """How people call it: `KIND/NAME`."""
    return f"{kind}/{name}"

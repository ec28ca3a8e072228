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

Pairs = tuple[tuple[str, str], ...]
"""Keys and their values, in the order of the keys."""

SPEC_BYTES_MAX: Final = 256 * 1024
STATUS_BYTES_MAX: Final = 256 * 1024
MARKS_BYTES_MAX: Final = 64 * 1024
"""Labels and annotations together."""
RESOURCES_MAX: Final = 10_000
FINALIZERS_MAX: Final = 16


class Resource(Struct, array_like=True, kw_only=True):
    """`generation` counts how often the spec was changed, and nothing else raises it; `labels` are
    what people choose resources by, `annotations` what they note about one. `version` is
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
    labels: Pairs = ()
    annotations: Pairs = ()

    @property
    def key(self) -> ResourceKey:
        return self.kind, self.name


def marks_size(labels: Pairs, annotations: Pairs) -> int:
    """How many bytes of text these are together."""
    return sum(len(text.encode()) for pair in (*labels, *annotations) for text in pair)


def resource_id(kind: str, name: str) -> str:
    """How people call it: `KIND/NAME`."""
    return f"{kind}/{name}"

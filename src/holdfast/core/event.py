"""What every fact has in common: how it is written down."""

from msgspec import Struct


class Event(Struct, frozen=True, kw_only=True, array_like=True, tag=True, gc=False):
    """Frozen, told in full, and known by the name of its type."""

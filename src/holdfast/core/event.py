"""What every fact has in common: how it is written down."""

from msgspec import Struct


class Event(
    Struct, frozen=True, kw_only=True, array_like=True, tag=True, gc=False,
    forbid_unknown_fields=True,
):  # fmt: skip
    """Frozen, told in full, and known by the name of its type. One that has more to say than this
    release knows was written by a later one, and is not read as if it had said less."""

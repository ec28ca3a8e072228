"""What every request has in common."""

from msgspec import Struct


class Command(Struct, frozen=True, kw_only=True):
    """What every request has in common: it is a value.

    One with a `request_key` is judged once: the same key with the same digest is a repeat.
    """

    request_key: str = ""
    request_digest: bytes = b""

"""Secrets are covered before output leaves the worker: as many stars as the secret has bytes.

Nothing moves by it, so offsets stay what they are. A secret may lie across two chunks: what could
be the beginning of one waits until more is there.
"""

from collections.abc import Iterable
from typing import Final

LEAST: Final = 4
"""A shorter secret is none: covering it would cover half of all text."""


class Mask:
    """What has to be covered in the output of one attempt."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        told = {secret.encode() for secret in secrets}
        self._secrets = sorted((each for each in told if len(each) >= LEAST), key=len, reverse=True)

    def cover(self, content: bytes, *, is_all: bool) -> bytes:
        """`content` without secrets, and without an end that may be the beginning of one, unless
        it is all there will ever be. The next piece begins where this one ends, so that no secret
        ever lies across two."""
        if not self._secrets:
            return content
        size = len(content) - (0 if is_all else self._doubtful(content))
        for secret in self._secrets:
            content = content.replace(secret, b"*" * len(secret))
        return content[:size]

    def _doubtful(self, content: bytes) -> int:
        """How many bytes at the end may be the beginning of a secret."""
        return max(
            (
                size
                for secret in self._secrets
                for size in range(1, len(secret))
                if content.endswith(secret[:size])
            ),
            default=0,
        )

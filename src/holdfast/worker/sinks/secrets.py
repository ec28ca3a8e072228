"""Secrets by reference: looked up when a sink is used, and hidden in whatever is told of it."""

import os
from pathlib import Path
from typing import Final

from holdfast.wire.masks import HIDDEN, REFERENCE
from holdfast.worker.sinks.outlet import NotDelivered

SHORTEST: Final = 4
"""A shorter secret is a word that any message may hold by chance."""


class Secrets:
    """Those that one sink has looked up."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def look_up(self, text: str) -> str:
        """What `env:NAME` or `file:PATH` stands for; anything else as it is. `NotDelivered` where
        it is not there: it may be there later."""
        found = REFERENCE.fullmatch(text)
        if found is None:
            return self._remembered(text)
        name = found["name"]
        value = os.environ.get(name) if found["how"] == "env" else _content(name)
        if value is None:
            raise NotDelivered(f"the environment of whoever delivers has no {name}")
        return (found["before"] or "") + self._remembered(value)

    def hide(self, text: str) -> str:
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text

    def _remembered(self, value: str) -> str:
        if len(value) >= SHORTEST:
            self._known.add(value)
        return value


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotDelivered(f"the secret in {path} cannot be read: {error}") from None

"""Ports for services: numbers that nobody on this machine uses, each given to one replica.

The system is asked for a free one by binding to none in particular. It is let go of again, because
the replica has to bind it itself; until it does, a stranger may come first. Such a replica ends
with the error of its own bind, and its next attempt gets other numbers.
"""

import socket
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

LOOPBACK: Final = "127.0.0.1"


class Ports:
    """What is given out here. Never the same number twice among those that live."""

    def __init__(self) -> None:
        self._given: set[int] = set()

    def give(self, names: Iterable[str]) -> dict[str, int]:
        """A number for each name. `OSError` where the system has none left."""
        found: dict[str, int] = {}
        held: list[socket.socket] = []
        try:
            for name in names:
                found[name] = self._free(held)
        finally:
            for each in held:
                each.close()
        self._given.update(found.values())
        return found

    def take_back(self, numbers: Iterable[int]) -> None:
        self._given.difference_update(numbers)

    def _free(self, held: list[socket.socket]) -> int:
        """All that are looked at are held on to meanwhile, so that none comes twice."""
        while True:
            bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            held.append(bound)
            # On every address: a replica may choose any of them.
            bound.bind(("", 0))
            number: int = bound.getsockname()[1]
            if number not in self._given:
                return number


def address_of(host: str, port: int) -> str:
    """How one writes where something is reached."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def own_address(url: str) -> str:
    """The address of this machine that a server sees; the machine's own to itself where the server
    is on it, or cannot be found."""
    parts = urlsplit(url)
    if not parts.hostname:
        return LOOPBACK
    try:
        family, kind, _, _, place = socket.getaddrinfo(
            parts.hostname, parts.port or 80, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as asked:
            # Nothing is sent: the system only says from where it would be.
            asked.connect(place)
            found: str = asked.getsockname()[0]
            return found
    except OSError:
        return LOOPBACK

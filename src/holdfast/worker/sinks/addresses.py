"""Addresses of the web as a sink uses them, and which of them it may use."""

from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

PORTS: Final = {"http": 80, "https": 443}


class Address(Struct, frozen=True):
    """`target` is what is asked for there: the path, and whatever follows it."""

    scheme: str
    host: str
    port: int
    path: str
    target: str

    @property
    def place(self) -> tuple[str, str, int]:
        """Whom to connect to."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """Without the query, which often holds what nobody should read."""
        return f"{self.scheme}://{self.authority}{self.path}"


def address_of(url: str) -> Address:
    """Of an address that was checked."""
    parts = urlsplit(url)
    host = (parts.hostname or "").encode("idna").decode() if not url.isascii() else parts.hostname
    path = parts.path or "/"
    target = f"{path}?{parts.query}" if parts.query else path
    port = PORTS[parts.scheme] if parts.port is None else parts.port
    return Address(parts.scheme, host or "", port, path, target)


def is_allowed(address: Address, allow: tuple[str, ...]) -> bool:
    """Whether an entry names its host, or begins it. A path that climbs is never allowed: where
    it leads is for the receiver to say."""
    climbs = any(part in (".", "..") for part in _plain(address.path).split("/"))
    return not climbs and any(_covers(entry, address) for entry in allow)


def _covers(entry: str, address: Address) -> bool:
    if "://" not in entry:
        return address_of(f"https://{entry}/").place == address.place
    named = address_of(entry)
    if named.place != address.place:
        return False
    # A prefix ends where a part of the path does.
    prefix = named.path.rstrip("/")
    return address.path == named.path or address.path.startswith(f"{prefix}/")


def _plain(path: str) -> str:
    path = path.lower().replace("\\", "/")
    for code, letter in (("%2e", "."), ("%2f", "/"), ("%5c", "/")):
        path = path.replace(code, letter)
    return path

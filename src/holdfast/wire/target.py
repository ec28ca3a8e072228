"""Where a server is, how one may ask it, and how a request to it looks on the wire."""

import ssl
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.version import VERSION

MSGPACK: Final = "application/msgpack"
UNIX: Final = "unix:"


class Server(Struct, frozen=True, kw_only=True):
    """Where a server is and how one may ask it. `ca_file`: whom to trust beside the system.
    `strict`: a repeat of what was done before is to be refused."""

    url: str
    token: str = ""
    ca_file: str = ""
    strict: bool = False

    def base_url(self) -> str:
        return "http://holdfast" if self.url.startswith(UNIX) else self.url.rstrip("/")

    def headers(self) -> dict[str, str]:
        known = {"user-agent": f"holdfast/{VERSION}", "accept": MSGPACK}
        if self.token:
            known["authorization"] = f"Bearer {self.token}"
        if self.strict:
            known["prefer"] = "handling=strict"
        return known

    def socket(self) -> str | None:
        return self.url.removeprefix(UNIX) if self.url.startswith(UNIX) else None

    def trust(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https:"):
            return None
        return ssl.create_default_context(cafile=self.ca_file or None)


class Target(Struct, frozen=True):
    """A server as its connections see it: what stands before the path, and the lines that every
    request has. `path` is that of a socket on this machine."""

    host: str
    port: int
    path: str | None
    prefix: str
    lines: str
    trust: ssl.SSLContext | None

    def head(self, method: str, target: str, headers: dict[str, str], size: int) -> bytes:
        """`ValueError` where anything holds what no line of a request may."""
        if " " in target or not all(map(_is_plain, (target, *headers.values()))):
            raise ValueError(f"{target[:200]!r} cannot be asked for")
        own = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        return (
            f"{method} {self.prefix}{target} HTTP/1.1\r\n{self.lines}{own}"
            f"content-length: {size}\r\n\r\n"
        ).encode("latin-1")


def target_of(server: Server) -> Target:
    """`ValueError` where a token or an address holds what no line of a request may."""
    parts = urlsplit(server.base_url())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address is one such as http://127.0.0.1:7700")
    told = {"host": parts.netloc.rpartition("@")[2], **server.headers()}
    if not all(map(_is_plain, (parts.path, *told.values()))):
        raise ValueError("a token is one word of plain letters, and so is an address")
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    trust = server.trust()
    port = parts.port or (443 if trust is not None else 80)
    prefix = parts.path.rstrip("/")
    return Target(parts.hostname, port, server.socket(), prefix, lines, trust)


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable()

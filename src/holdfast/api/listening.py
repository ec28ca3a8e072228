"""Where a server listens, and whether that is safe."""

import errno
import ipaddress
import socket
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.core.errors import OperatingError

UNIX: Final = "unix:"
USUAL_PORT: Final = 7700
EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104


class CannotListen(OperatingError):
    """The address cannot be had."""


class Address(Struct, frozen=True):
    """A host and port, or the path of a socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def url(self, *, tls: bool, near: bool = False) -> str:
        """How to reach it; `near` from this very machine."""
        if self.path:
            return UNIX + self.path
        host = EVERYWHERE.get(self.host, self.host) if near else self.host
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if tls else 'http'}://{shown}:{self.port}"


def parse_address(text: str) -> Address:
    """`127.0.0.1:7700`, `[::1]:7700`, `localhost`, `unix:/run/holdfast.sock`."""
    if text.startswith(UNIX):
        return Address(path=str(Path(text.removeprefix(UNIX)).absolute()))
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(USUAL_PORT)
    if not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise ValueError(f"{text!r} is not an address such as 127.0.0.1:{USUAL_PORT}")
    return Address(host.strip("[]"), int(port))


def bind(address: Address) -> tuple[socket.socket, Address]:
    """The address, taken, with the port that was given. Nobody is listened to yet."""
    if address.path:
        return _bind_path(address), address
    try:
        found = socket.getaddrinfo(
            address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except socket.gaierror as error:
        raise CannotListen(f"{address.host!r} is no address of this machine: {error}") from error
    family, kind, protocol, _, place = found[0]
    door = socket.socket(family, kind, protocol)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(place)
        door.setblocking(False)
    except OSError as error:
        door.close()
        raise CannotListen(_why(address, error)) from error
    return door, Address(address.host, door.getsockname()[1])


def _bind_path(address: Address) -> socket.socket:
    path = Path(address.path)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket() and not _is_answered(path):
            path.unlink()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        door.bind(address.path)
        path.chmod(0o600)
        door.setblocking(False)
    except OSError as error:
        door.close()
        raise CannotListen(_why(address, error)) from error
    return door


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True


def _why(address: Address, error: OSError) -> str:
    where = address.path or f"{address.host}:{address.port}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"{where} is in use by another program. Stop it, or listen elsewhere: "
            "--listen 127.0.0.1:0 takes a free port."
        )
    if error.errno == errno.EACCES:
        return f"{where} may not be used by you: {error.strerror}. Take a port above 1023."
    return f"{where} cannot be listened on: {error.strerror}"

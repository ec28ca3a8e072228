"""Ports of this machine that are given to others."""

import socket


def held_port() -> socket.socket:
    """A port that is nobody else's while those who listen there come and go, until this is closed.

    It is bound here and not listened at. A server may take it, as it could take one that was just
    let go of; a program that asks for any port, or calls out from one, is never given it.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held

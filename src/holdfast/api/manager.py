"""What a server says to the manager of the system that started it: systemd, or who speaks like it.

The messages are those of sd_notify(3): one datagram each, to the socket that the environment names.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"


def tell_manager(word: str, environment: Mapping[str, str] | None = None) -> None:
    """Say it where somebody wants to know."""
    known = os.environ if environment is None else environment
    address = known.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    place = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire, suppress(OSError):
        # A manager that does not read must not hold up the loop.
        wire.setblocking(False)
        wire.sendto(word.encode(), place)


def watchdog_s(environment: Mapping[str, str], pid: int) -> float | None:
    """How often we are to be heard of; None where nobody waits for that, or not for this process.
    Half of what is allowed, so that one that is late is not the end."""
    told, whom = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not (told.isascii() and told.isdigit()) or int(told) == 0:
        return None
    if whom and whom != str(pid):
        return None
    return int(told) / 2_000_000


async def show_life(environment: Mapping[str, str] | None = None) -> None:
    """Say from the loop itself that it turns, for as long as it does: who is stuck is silent, and
    is started again."""
    known = os.environ if environment is None else environment
    every_s = watchdog_s(known, os.getpid())
    while every_s is not None:
        tell_manager(ALIVE, known)
        await asyncio.sleep(every_s)

"""Where a file lies, in a word that means the same to every worker that sees it.

A local disk belongs to its machine. A network file system is known by what was mounted, so that
workers on several machines agree on which of them write to one folder.
"""

import os
import socket
from functools import cache
from pathlib import Path
from typing import Final

HOST: Final = "host:"
MOUNT: Final = "mount:"
MOUNTS: Final = Path("/proc/self/mountinfo")
MACHINE: Final = Path("/etc/machine-id")

NETWORKED: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "gfs2", "glusterfs",
        "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs",
        "virtiofs",
    }
)  # fmt: skip


@cache
def own_place() -> str:
    """This machine's. The host's name is part of it: containers of one image share the rest."""
    try:
        machine = MACHINE.read_text().strip()[:8]
    except OSError:
        machine = ""
    return f"{HOST}{socket.gethostname()}" + (f".{machine}" if machine else "")


def place_of(folder: str) -> str:
    """The place of a folder that exists."""
    try:
        mounts = MOUNTS.read_text()
    except OSError:
        return own_place()
    return place_in(mounts, os.path.realpath(folder)) or own_place()


def place_in(mounts: str, folder: str) -> str:
    """The place of a folder by a table of mounts; empty where it is on a local disk."""
    longest, found = -1, ""
    for line in mounts.splitlines():
        before, dash, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if not dash or len(fields) < 5 or len(kind) < 2:
            continue
        point = _plain(fields[4])
        # A later mount on the same point hides an earlier one.
        if len(point) >= longest and _is_under(folder, point):
            longest = len(point)
            found = f"{MOUNT}{_plain(kind[1])}" if kind[0] in NETWORKED else ""
    return found


def _is_under(folder: str, point: str) -> bool:
    return folder == point or folder.startswith(point.rstrip("/") + "/")


def _plain(field: str) -> str:
    """The kernel writes spaces, tabs, newlines and backslashes as three octal digits."""
    if "\\" not in field:
        return field
    head, *rest = field.split("\\")
    return head + "".join(chr(int(part[:3], 8)) + part[3:] for part in rest)

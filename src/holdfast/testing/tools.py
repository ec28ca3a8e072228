"""Programs that break real disks and clocks, and whether they are here."""

import os
import shutil
from pathlib import Path
from typing import Final

PACKAGES: Final = {
    "strace": "strace",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "xfs_io": "xfsprogs",
    "nbdkit": "nbdkit",
    "nbdfuse": "libnbd-bin",
    "fusermount3": "fuse3",
    "faketime": "faketime",
    "unshare": "util-linux",
}
"""Which package of Debian has each of them."""
ROOT: Final = "root"
FUSE: Final = "/dev/fuse"
LOOP: Final = "/dev/loop-control"
PLACES: Final = ":/usr/sbin:/sbin"


def program(name: str) -> str | None:
    """Where a program is; those for administrators are not always on the path."""
    return shutil.which(name, path=os.environ.get("PATH", "") + PLACES)


def lacking(*wanted: str) -> list[str]:
    """What is not here, in words: programs, devices by their path, or being root."""
    return [_lack(name) for name in wanted if not _is_here(name)]


def _is_here(name: str) -> bool:
    if name == ROOT:
        return os.geteuid() == 0
    if name.startswith("/dev/"):
        return Path(name).exists()
    return program(name) is not None


def _lack(name: str) -> str:
    if name == ROOT:
        return "whoever runs it to be root"
    return f"{name} (package {PACKAGES[name]})" if name in PACKAGES else name

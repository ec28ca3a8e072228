"""The lock: a folder has one writer, and the next one is told who that is."""

import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Final

from holdfast.wal.disk import Disk, read_all, write_all
from holdfast.wal.errors import LogInUse

LOCK_NAME: Final = "holdfast.lock"
NOTE_BYTES: Final = 1024
COMMAND_CHARACTERS: Final = 200


class FolderLock:
    """Sole right to write a folder, for as long as this process lives and wants it.

    The file also says who holds it and, once the log exists, which log that is: a folder that had a
    log and has none now was damaged, and must not be taken for a new one. The note has a fixed
    length, so writing it again needs no space.
    """

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._folder = folder
        path = folder / LOCK_NAME
        fd = disk.lock(path)
        if fd is None:
            raise LogInUse(folder, _owner(disk, path))
        self._fd = fd
        self.log_id = str(_note(disk, path).get("log", ""))
        self.sign(self.log_id)

    def sign(self, log_id: str) -> None:
        """Write who holds the folder and which log it is. Only advice, so a full disk is borne."""
        self.log_id = log_id
        note = {
            "pid": os.getpid(),
            "command": " ".join(sys.argv)[:COMMAND_CHARACTERS],
            "host": platform.node()[:COMMAND_CHARACTERS],
            "since": int(time.time() * 1000),
            "log": log_id,
        }
        text = json.dumps(note, ensure_ascii=True).encode()
        if len(text) >= NOTE_BYTES:
            note["command"] = sys.argv[0][-40:].encode("ascii", "replace").decode()
            text = json.dumps(note, ensure_ascii=True).encode()
        try:
            write_all(self._disk, self._fd, text[: NOTE_BYTES - 1].ljust(NOTE_BYTES - 1) + b"\n", 0)
        except OSError:
            return

    def release(self) -> None:
        self._disk.unlock(self._fd)


def _note(disk: Disk, path: Path) -> dict[str, object]:
    try:
        note = json.loads(read_all(disk, path) or b"{}")
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _owner(disk: Disk, path: Path) -> str:
    note = _note(disk, path)
    if "pid" not in note:
        return "another program"
    return f"process {note['pid']} on {note.get('host', '?')}: {note.get('command', '?')}"

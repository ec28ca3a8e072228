"""A disk that returns errors, takes its time, or answers nothing at all, below a real file system.

A block device in memory is served by nbdkit, made a file by nbdfuse, and mounted from there: the
kernel meets its errors and waits as it would those of a worn drive.
"""

import signal
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from holdfast.testing.mounts import in_memory, leave, run
from holdfast.testing.patience import until
from holdfast.testing.tools import FUSE, LOOP, ROOT, program

NEEDS: Final = (ROOT, LOOP, FUSE, "mkfs.ext4", "nbdkit", "nbdfuse", "fusermount3")
SIZE: Final = 96 * 2**20
STOP_S: Final = 60.0


class BadDisk:
    """Good when it is made, but for `delay_ms` that every write takes."""

    def __init__(self, folder: Path, *, delay_ms: int = 0) -> None:
        self.place = folder / "bad-here"
        self._folder = folder
        self._errors = folder / "errors"
        self._delay_ms = delay_ms
        self._server: subprocess.Popen[bytes] | None = None
        self._leaving = ExitStack()

    def __enter__(self) -> "BadDisk":
        with ExitStack() as leaving:
            memory = leaving.enter_context(in_memory(self._folder / "bad-image", 2 * SIZE))
            image, door = memory / "image", memory / "door"
            with image.open("wb") as file:
                file.truncate(SIZE)
            run("mkfs.ext4", "-q", "-F", image)
            said = leaving.enter_context((self._folder / "bad-disk.txt").open("ab"))
            self._server = self._serve(image, door, said)
            leaving.callback(_end, self._server)
            until(door.exists)
            self._device = leaving.enter_context(_Device(self._folder / "bad-file", door, said))
            self.place.mkdir()
            self.mount()
            leaving.callback(self._leave)
            self._leaving = leaving.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leaving.close()

    def fail(self) -> None:
        """From here on, no write reaches the disk: whoever syncs is told so."""
        self._errors.touch()

    def heal(self) -> None:
        self._errors.unlink(missing_ok=True)

    def stall(self) -> None:
        """From here on, the disk answers nothing, and whoever waits for it goes on waiting."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def mount(self) -> None:
        """Also after errors: then the file system mends itself from its journal."""
        run("mount", "-o", "loop", self._device.file, self.place)

    def unmount(self) -> None:
        run("umount", self.place)

    def _leave(self) -> None:
        self.go_on()
        self.heal()
        leave(self.place)

    def _signal(self, number: signal.Signals) -> None:
        if self._server is not None:
            self._server.send_signal(number)

    def _serve(self, image: Path, door: Path, said: IO[bytes]) -> "subprocess.Popen[bytes]":
        filters = ["--filter=error"]
        words = ["error=EIO", "error-pwrite-rate=100%", f"error-pwrite-file={self._errors}"]
        if self._delay_ms:
            filters.append("--filter=delay")
            words.append(f"wdelay={self._delay_ms}ms")
        command = [program("nbdkit") or "nbdkit", "-f", "-U", str(door), *filters]
        return subprocess.Popen([*command, "file", str(image), *words], stdout=said, stderr=said)


class _Device:
    """The block device as a file that can be mounted."""

    def __init__(self, folder: Path, door: Path, said: IO[bytes]) -> None:
        self.file = folder / "disk"
        self._folder = folder
        self._door = door
        self._said = said

    def __enter__(self) -> "_Device":
        self._folder.mkdir()
        self._process = subprocess.Popen(
            [program("nbdfuse") or "nbdfuse", str(self.file), f"nbd+unix:///?socket={self._door}"],
            stdout=self._said, stderr=self._said,
        )  # fmt: skip
        until(self.file.exists)
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(RuntimeError):
            run("fusermount3", "-u", self._folder)
        _end(self._process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    process.wait(STOP_S)

"""Clocks that jump: a wall clock that is set while a server runs, and machines whose time since
their start is another each time."""

from pathlib import Path
from typing import Final

NEEDS: Final = ("faketime",)
LIBRARIES: Final = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
)
HOUR_S: Final = 3_600
DAY_S: Final = 86_400
JUMPS_S: Final = (-DAY_S, -HOUR_S, -60, -1, 0, 1, 60, HOUR_S, DAY_S)


class WallClock:
    """What programs that were started with `environment` see as the wall clock, and nothing else:
    the clocks that leases are measured by go on as they are."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "wall-clock"
        self.set(0)

    @property
    def environment(self) -> dict[str, str]:
        library = next((path for path in LIBRARIES if Path(path).exists()), LIBRARIES[0])
        return {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, offset_s: int) -> None:
        """So many seconds from the truth, from now on. Appears whole."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{offset_s:+d}s\n", encoding="ascii")
        fresh.rename(self._file)


def started_at(seconds: int) -> tuple[str, ...]:
    """What has a program see a machine that has been up for so much longer."""
    return ("unshare", "-T", f"--monotonic={seconds}", f"--boottime={seconds}")

"""The machine a figure was measured on, as far as it decides the figure."""

import os
import platform
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile

from msgspec import Struct

BLOCK_BYTES = 4096
SYNCS = 200


class Machine(Struct, frozen=True):
    """`fdatasync_p50_ms` is that of one block written over zeros in the folder measured."""

    cores: int
    python: str
    system: str
    fdatasync_p50_ms: float


def this_machine(folder: Path, syncs: int = SYNCS) -> Machine:
    return Machine(
        cores=os.cpu_count() or 1,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        fdatasync_p50_ms=_sync_ms(folder, syncs),
    )


def describe(machine: Machine) -> str:
    cores = "1 core" if machine.cores == 1 else f"{machine.cores} cores"
    return (
        f"{cores}, {machine.system}, Python {machine.python}, "
        f"fdatasync p50 {machine.fdatasync_p50_ms:.2f} ms"
    )


def _sync_ms(folder: Path, syncs: int) -> float:
    """The median of a small durable write into space that is already there, as the log does it."""
    waits: list[float] = []
    with TemporaryFile(dir=folder, buffering=0) as file:
        file.write(bytes(BLOCK_BYTES * syncs))
        os.fsync(file.fileno())
        for place in range(syncs):
            began = time.perf_counter()
            os.pwrite(file.fileno(), b"\1" * BLOCK_BYTES, place * BLOCK_BYTES)
            os.fdatasync(file.fileno())
            waits.append(1_000 * (time.perf_counter() - began))
    return median(waits)

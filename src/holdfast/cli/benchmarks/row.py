"""A row of the bench: what it measures, what it is held to, and how it is run.

A row may have several figures, because some mean something only side by side in one run. Every
run happens in a fresh process, so that neither memory nor caches of one row colour the next:
`python -m holdfast.cli.benchmarks.ROW SIZE FOLDER` measures once and writes its figures as JSON.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from holdfast.cli.unwinding import heed, uninterrupted
from holdfast.core.errors import BrokenInvariant, OperatingError

FAMILY: Final = "holdfast.cli.benchmarks"

ROW_NAMES: Final = (
    "embedded",
    "latency",
    "server",
    "latency-server",
    "effects",
    "idle",
    "arrays",
    "items",
    "singles",
    "finished",
    "restart",
    "replay",
    "growth",
    "scheduler",
    "evaluator",
    "runtimes",
    "help",
)
"""Every row is a module of this name with a `ROW` in it; this is the order they are shown in."""

PATIENCE_S: Final = 30.0
"""How long a row that must stop may take to end what it has started."""


class Bar(Struct, frozen=True):
    """What a figure is held to. The limit itself is good enough."""

    limit: float
    at_least: bool

    def is_met_by(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


def at_least(limit: float) -> Bar:
    return Bar(limit, at_least=True)


def at_most(limit: float) -> Bar:
    return Bar(limit, at_least=False)


class Figure(Struct, frozen=True):
    """One number of a row. One without a bar is there to be compared with."""

    name: str
    what: str
    unit: str
    bar: Bar | None = None


Values = Mapping[str, float]
"""The figures of one run, by name."""


class Row(Struct, frozen=True):
    """`run` measures once, with this many tasks, in a folder it may fill and need not clean."""

    name: str
    what: str
    figures: tuple[Figure, ...]
    size: int
    quick_size: int
    run: Callable[[int, Path], Values]


class RowFailed(OperatingError):
    """A row could not be measured; the message is the last thing its process had to say."""


def row_of(name: str) -> Row:
    row: Row = import_module(module_of(name)).ROW
    return row


def module_of(name: str) -> str:
    return f"{FAMILY}.{name.replace('-', '_')}"


def measure_here(row: Row, size: int, folder: Path) -> Values:
    """Run the row once in this process, in a folder that it may fill."""
    values = row.run(size, folder)
    if set(values) != {figure.name for figure in row.figures}:
        raise BrokenInvariant(f"row {row.name} measured {sorted(values)}, not what it announces")
    return values


def measure_in_child(row: Row, size: int, folder: Path) -> Values:
    """Run the row once in a fresh process, in a folder of its own that is gone afterwards.

    Where we are told to stop, so is that process, and it ends whatever it has started; the folder
    is ours and not the process's, in case it must be killed.
    """
    with ExitStack() as stack:
        with uninterrupted():
            own = TemporaryDirectory(prefix="holdfast-bench-", dir=folder)
            place = stack.enter_context(own)
            words = [sys.executable, "-m", module_of(row.name), str(size), place]
            child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            stack.enter_context(_ended(child))
        told, said = child.communicate()
    if child.returncode != 0:
        lines = said.decode(errors="replace").strip().splitlines()
        raise RowFailed(lines[-1] if lines else f"its process ended with {child.returncode}")
    return msgspec.json.decode(told, type=dict[str, float])


@contextmanager
def _ended(child: "subprocess.Popen[bytes]") -> Iterator[None]:
    with child:
        try:
            yield
        except BaseException:
            child.terminate()
            try:
                child.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                child.kill()
            raise


def main(row: Row, arguments: Sequence[str]) -> int:
    """What the process of a row does: measure once and write the figures to stdout."""
    size, folder = arguments
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        heed()
        print(json.dumps(measure_here(row, int(size), Path(folder))))
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Unwind, so that nothing this process has started outlives it."""
    sys.exit(128 + number)

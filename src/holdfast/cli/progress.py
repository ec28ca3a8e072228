"""A progress bar on a terminal, and nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


@contextmanager
def bar(title: str, total: int) -> Iterator[Advance]:
    """Draw how far something is, on stderr: stdout is for what was asked for."""
    if not sys.stderr.isatty():
        yield _nowhere
        return
    # Drawing is worth its import only where there is somebody to look.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as drawn:
        line = drawn.add_task(title, total=total)
        yield lambda count: drawn.advance(line, count)


def _nowhere(count: int) -> None:
    """Nobody looks."""

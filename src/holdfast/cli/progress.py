"""A progress bar on a terminal, and nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.cli.output import is_terminal, refuses_color

Advance = Callable[[int], None]


@contextmanager
def bar(title: str, total: int) -> Iterator[Advance]:
    """Draw how far something is, on stderr: stdout is for what was asked for."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield nowhere
        return
    # Drawing is worth its import only where there is somebody to look.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True, no_color=True if refuses_color() else None)
    # What is written meanwhile passes through the bar, so that the two do not mix on one screen.
    # Where stdout is no screen it must not: it would come out on stderr with the bar.
    with Progress(*columns, console=console, redirect_stdout=is_terminal()) as drawn:
        line = drawn.add_task(title, total=total)
        yield lambda count: drawn.advance(line, count)


def nowhere(count: int) -> None:
    """Nobody looks."""


class Meter:
    """How far something is, told as a whole; what is told again moves nothing."""

    def __init__(self, advance: Advance) -> None:
        self._advance = advance
        self.done = 0

    def reached(self, done: int) -> None:
        if done > self.done:
            self._advance(done - self.done)
            self.done = done

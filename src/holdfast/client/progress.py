"""A progress bar while waiting for a job: on a terminal only, and drawn on stderr."""

import sys
from collections.abc import Callable

from holdfast.client.feed import JobFeed

REDRAW_SECONDS = 0.1


def wait_with_bar(feed: JobFeed, name: str, wait: Callable[[float | None], bool]) -> bool:
    """Wait until the job has ended, showing how far it is. Silent where nobody can watch."""
    if not sys.stderr.isatty():
        return wait(None)
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task(name, total=None)
        ended = False
        while not ended:
            ended = wait(REDRAW_SECONDS)
            total = len(feed.cells) if feed.sealed else None
            progress.update(bar, completed=feed.done_count, total=total)
    return True

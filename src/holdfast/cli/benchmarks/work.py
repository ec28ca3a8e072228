"""The tasks that the bench runs: they do nothing, so that what is measured is everything else."""

import time

import holdfast


def noop(item: int) -> int:
    """Gives back what it is given. It has annotations, which are honoured, as most functions do."""
    return item


def owing(item: int) -> int:
    """Promises one line of a file."""
    holdfast.current().effect("ledger", body=item)
    return item


def instant() -> int:
    """When it was run, by the clock that all processes of this machine share."""
    return time.monotonic_ns()

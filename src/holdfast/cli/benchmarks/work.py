"""The task that the bench runs: it does nothing, so that what is measured is everything else."""


def noop(item: int) -> int:
    """Gives back what it is given. It has annotations, which are honoured, as most functions do."""
    return item

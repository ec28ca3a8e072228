"""The tasks that the bench runs: they do nothing, so that what is measured is everything else."""


def noop(item):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201 - see below
    """Gives back what it is given. It has no annotations, as most functions of a first try."""
    return item

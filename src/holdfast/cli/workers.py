"""`holdfast worker`: who works for a server, and how to become one who does."""

import click

from holdfast.cli.worker_start import start


@click.group()
def worker() -> None:
    """Start a worker for a server."""


worker.add_command(start)

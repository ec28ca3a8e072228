"""`holdfast queue`: what waits in queues, and whether they are given out."""

from pathlib import Path

import click

from holdfast.cli.asking import asking
from holdfast.cli.options import reason_option, server_options
from holdfast.cli.output import clean, emit_list, note
from holdfast.cli.reading import Look, reads
from holdfast.cli.tables import cell, number, table_of, words
from holdfast.wire.bodies import Reason


@click.command("list")
@reads
def list_queues(look: Look, form: str) -> None:
    """List the queues that are paused or have something waiting."""
    with look.source() as source:
        views = source.queues()
    drawn = table_of(
        views,
        words("QUEUE", "name"),
        cell("STATE", lambda view: "PAUSED" if view["paused"] else "OPEN"),
        number("WAITING JOBS", "waiting_jobs"),
        words("WHY", "reason"),
    )
    emit_list(form, "queues", views, drawn)


@click.command()
@click.argument("name")
@reason_option
@server_options
def pause(name: str, reason: str, server: str | None, token_file: Path | None) -> None:
    """Give nothing more of a queue out; what runs goes on."""
    with asking(server, token_file) as asker:
        asker.post("queues", name, "pause", body=Reason(reason=reason))
        note(
            f"queue {clean(name)} is paused; "
            f"`holdfast queue resume {clean(name)}{asker.options}` undoes it"
        )


@click.command()
@click.argument("name")
@reason_option
@server_options
def resume(name: str, reason: str, server: str | None, token_file: Path | None) -> None:
    """Give a queue out again."""
    with asking(server, token_file) as asker:
        asker.post("queues", name, "resume", body=Reason(reason=reason))
        note(f"queue {clean(name)} is given out again")

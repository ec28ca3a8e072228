"""`holdfast states`: the state machines, drawn from the tables that judge."""

import json
from pathlib import Path

import click

from holdfast.cli.documents import document_options, keep_document
from holdfast.cli.output import emit
from holdfast.core.drawing import FORMATS, draw, draw_all, machines, states_document


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="How to draw.",
)
@click.option(
    "--machine",
    type=click.Choice([machine.name for machine in machines()]),
    help="Only this one; all of them where none is named.",
)
@document_options
def states(form: str, machine: str | None, check: Path | None, write: Path | None) -> None:
    """Draw the states of tasks, attempts, leases and jobs."""
    if not keep_document(states_document(), "holdfast states", check=check, write=write):
        emit(_drawn(form, machine))


def _drawn(form: str, machine: str | None) -> str:
    if form == "json":
        drawn = json.loads(draw_all("json") if machine is None else draw(machine, "json"))
        named = drawn if machine is None else {machine: drawn}
        return json.dumps({"schema": 1, "machines": named}, indent=2) + "\n"
    return draw_all(form) if machine is None else draw(machine, form)

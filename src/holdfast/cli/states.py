"""`holdfast states`: the state machines, drawn from the tables that judge."""

import json
from pathlib import Path

import click

from holdfast.cli.documents import document_options, keep_document
from holdfast.cli.output import emit
from holdfast.core.drawing import FORMATS, draw, draw_all, machines, states_document
from holdfast.runtimes.drawing import RUNTIME_MACHINE

BESIDE = (RUNTIME_MACHINE,)


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
    type=click.Choice([machine.name for machine in (*machines(), *BESIDE)]),
    help="Only this one; all of them where none is named.",
)
@document_options
def states(form: str, machine: str | None, check: Path | None, write: Path | None) -> None:
    """Draw the states of tasks, attempts, leases, circuits, jobs and class runtimes."""
    document = states_document(beside=BESIDE)
    if not keep_document(document, "holdfast states", check=check, write=write):
        emit(_drawn(form, machine))


def _drawn(form: str, machine: str | None) -> str:
    drawn = draw_all(form, beside=BESIDE) if machine is None else draw(machine, form, beside=BESIDE)
    if form == "json":
        named = json.loads(drawn) if machine is None else {machine: json.loads(drawn)}
        return json.dumps({"schema": 1, "machines": named}, indent=2) + "\n"
    return drawn

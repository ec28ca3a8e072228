"""`holdfast states`: the state machines, drawn from the tables that judge."""

import json
from pathlib import Path

import click

from holdfast.cli.errors import REFUSED, Trouble
from holdfast.cli.output import emit, typed
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
@click.option(
    "--check",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw nothing; fail if FILE is not the document of these states.",
)
@click.option(
    "--write",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the document of these states to FILE.",
)
def states(form: str, machine: str | None, check: Path | None, write: Path | None) -> None:
    """Draw the states of tasks, attempts, leases and jobs."""
    if write is not None:
        write.write_text(states_document(), encoding="utf-8")
    if check is not None:
        _check(check)
    if write is None and check is None:
        emit(_drawn(form, machine))


def _drawn(form: str, machine: str | None) -> str:
    if form == "json":
        drawn = json.loads(draw_all("json") if machine is None else draw(machine, "json"))
        named = drawn if machine is None else {machine: drawn}
        return json.dumps({"schema": 1, "machines": named}, indent=2) + "\n"
    return draw_all(form) if machine is None else draw(machine, form)


def _check(path: Path) -> None:
    write = f"`holdfast states --write {typed(path)}`"
    if not path.exists():
        raise Trouble(f"there is no {path}. Make it with {write}.", REFUSED)
    if path.read_bytes() != states_document().encode():
        raise Trouble(f"{path} does not match the code. Renew it with {write}.", REFUSED)

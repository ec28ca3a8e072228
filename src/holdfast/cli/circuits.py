"""`holdfast circuit`: which functions and sinks are given nothing, and why."""

from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from holdfast.cli.asking import asking
from holdfast.cli.options import reason_option, server_options
from holdfast.cli.output import TABLES, clean, emit_list, note
from holdfast.cli.reading import Look, reads
from holdfast.cli.tables import number, table_of, words
from holdfast.wire.bodies import Reason

KINDS: Final = ("function", "sink")


def _checked(context: click.Context, option: click.Parameter, value: str) -> str:
    """`function/MODULE:NAME` or `sink/NAME`; a bare name with a colon is a function."""
    kind, slash, name = value.partition("/")
    if kind in KINDS and name:
        return value
    if not slash and ":" in value:
        return f"function/{value}"
    raise click.BadParameter(f"{value!r} is not function/NAME or sink/NAME", context, option)


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(f"{kind}/") for kind in KINDS if kind.startswith(incomplete)]


_target = click.argument("target", metavar="KIND/NAME", callback=_checked, shell_complete=_complete)


@click.command("list")
@reads
def list_circuits(look: Look, form: str) -> None:
    """List the circuits that something is held against; all others are closed."""
    with look.source() as source:
        views = source.circuits()
        if not views and form in TABLES:
            note(f"every circuit {source.place} is closed")
            return
    drawn = table_of(
        views,
        words("CIRCUIT", "id"),
        words("STATE", "state"),
        number("FAILURES", "failures"),
        words("SINCE", "since"),
        words("HALF-OPENS", "until"),
        words("CAUSE", "cause"),
    )
    emit_list(form, "circuits", views, drawn)


@click.command("open")
@_target
@reason_option
@server_options
def open_circuit(target: str, reason: str, server: str | None, token_file: Path | None) -> None:
    """Give nothing more out for a function or a sink, until its circuit is closed by hand."""
    kind, _, name = target.partition("/")
    with asking(server, token_file) as asker:
        told = asker.post("circuits", kind, name, "open", body=Reason(reason=reason))
        undo = f"`holdfast circuit close {clean(target)}{asker.options}` undoes it"
        state = "is open" if told["changed"] else "was open already"
        note(f"circuit {clean(target)} {state}; {undo}")


@click.command("close")
@_target
@reason_option
@server_options
def close_circuit(target: str, reason: str, server: str | None, token_file: Path | None) -> None:
    """Give everything out again, and forget the failures."""
    kind, _, name = target.partition("/")
    with asking(server, token_file) as asker:
        told = asker.post("circuits", kind, name, "close", body=Reason(reason=reason))
        state = "is closed" if told["changed"] else "was closed already"
        note(f"circuit {clean(target)} {state}")

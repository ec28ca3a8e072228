"""How a person orders something that may be done to many: options, a question, a look before."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from msgspec import Struct

from holdfast.cli.errors import REFUSED, USAGE, Trouble
from holdfast.cli.options import output_option, reason_option, server_options, strict_option
from holdfast.cli.output import TABLES, View, emit_list, note

F = TypeVar("F", bound=Callable[..., Any])


class Order(Struct, frozen=True, kw_only=True):
    """How a person wants something done, where it may be done to many."""

    reason: str
    dry_run: bool
    yes: bool
    strict: bool
    server: str | None
    token_file: Path | None
    form: str


def orders(command: F) -> F:
    """The options of every such command, given to it as one `order`."""
    return reason_option(_ordered(command))


def orders_noted(command: F) -> F:
    """The same where `--reason` is something else: why it is done is called a note."""
    note_option = click.option("--note", "reason", default="", help="Why; it is recorded.")
    return note_option(_ordered(command))


def _ordered(command: F) -> F:

    @wraps(command)
    def ordered(**told: Any) -> Any:
        order = Order(**{name: told.pop(name) for name in Order.__struct_fields__})
        return command(order=order, **told)

    dry_run = click.option(
        "--dry-run", is_flag=True, help="Show what it would be done to; do nothing."
    )
    yes = click.option("-y", "--yes", is_flag=True, help="Do not ask, however many they are.")
    asked = strict_option(server_options(output_option(ordered)))
    return cast(F, dry_run(yes(asked)))


def would(form: str, plural: str, views: list[View], table: str, done: str) -> int:
    emit_list(form, plural, views, table if form in TABLES and views else "")
    note(f"nothing was done; {len(views)} {plural} would be {done}")
    return 0


def confirm(verb: str, found: Sequence[object], noun: str, *, yes: bool) -> None:
    """Ask a person before it is done to many; a program has to say --yes."""
    if yes or not found:
        return
    what = f"{verb} {len(found)} {noun}" + ("" if len(found) == 1 else "s")
    if sys.stdin is None or not sys.stdin.isatty():
        raise Trouble(f"this would {what}: add --yes if that is meant, --dry-run to look.", USAGE)
    if not click.confirm(f"{what.capitalize()}?", err=True):
        raise Trouble("nothing was done.", REFUSED)

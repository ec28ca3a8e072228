"""`holdfast limit`: how much a namespace, a user or a key may have running, and start."""

from pathlib import Path
from typing import Final

import click
from click.shell_completion import CompletionItem

from holdfast.cli.asking import asking
from holdfast.cli.errors import NOT_FOUND, Trouble
from holdfast.cli.options import output_option, server_options
from holdfast.cli.output import (
    TABLES,
    Column,
    View,
    clean,
    draw,
    draw_fields,
    emit_list,
    emit_one,
    note,
)
from holdfast.cli.reading import Look, reads
from holdfast.wire.bodies import NewLimit
from holdfast.wire.rates import rate_of

SCOPES: Final = ("namespace", "user", "key")


def _checked(
    context: click.Context, option: click.Parameter, value: str | tuple[str, ...]
) -> str | tuple[str, ...]:
    """`namespace/NAME`, `user/NAME` or `key/NAME`, one or many."""
    for target in (value,) if isinstance(value, str) else value:
        scope, _, name = target.partition("/")
        if scope not in SCOPES or not name:
            told = f"{target!r} is not namespace/NAME, user/NAME or key/NAME"
            raise click.BadParameter(told, context, option)
    return value


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(f"{scope}/") for scope in SCOPES if scope.startswith(incomplete)]


_target = click.argument(
    "target", metavar="SCOPE/NAME", callback=_checked, shell_complete=_complete
)


@click.command("list")
@reads
def list_limits(look: Look, form: str) -> None:
    """List the limits that are set, with how much of each is in use."""
    with look.source() as source:
        views = source.limits()
        if not views and form in TABLES:
            note(
                f"no limits {source.place}; "
                "`holdfast limit set key/NAME --running 1` sets one"
            )
            return
    emit_list(form, "limits", views, limits_table(views) if form in TABLES else "")


@click.command("show")
@_target
@reads
def show_limit(look: Look, target: str, form: str) -> None:
    """Show one limit."""
    with look.source() as source:
        found = [view for view in source.limits() if view["id"] == target]
        if not found:
            raise Trouble(
                f"no limit is set for {target} {source.place}. "
                f"`holdfast limit list{source.options}` lists those there are.",
                NOT_FOUND,
            )
    emit_one(form, found[0], limit_text(found[0]))


@click.command("set")
@_target
@click.option("--running", type=click.IntRange(min=0), metavar="N",
              help="How many tasks may run at once.")
@click.option("--rate", default="", metavar="N/DURATION",
              help="How many may start in a while, such as 10/1m.")
@click.option("--weight", type=click.IntRange(1, 100), metavar="N",
              help="A namespace's part in fair shares. [default: 1]")
@server_options
@output_option  # fmt: skip
def set_limit(
    target: str,
    running: int | None,
    rate: str,
    weight: int | None,
    server: str | None,
    token_file: Path | None,
    form: str,
) -> None:
    """Bound a namespace, a user or a key. What was set for it before is replaced."""
    if running is None and not rate and weight is None:
        raise click.UsageError("say how much: --running, --rate or --weight")
    try:
        rate_of(rate)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--rate") from None
    scope, _, name = target.partition("/")
    body = NewLimit(running=running or 0, rate=rate, weight=weight or 1)
    with asking(server, token_file) as asker:
        view = asker.put("limits", scope, name, body=body)
        note(
            f"{clean(target)} is limited; "
            f"`holdfast limit clear {clean(target)}{asker.options}` undoes it"
        )
    emit_one(form, view, limit_text(view))


@click.command()
@click.argument("targets", metavar="SCOPE/NAME...", nargs=-1, required=True,
                callback=_checked, shell_complete=_complete)  # fmt: skip
@server_options
def clear(targets: tuple[str, ...], server: str | None, token_file: Path | None) -> None:
    """Bound namespaces, users or keys no more."""
    with asking(server, token_file) as asker:
        for target in targets:
            scope, _, name = target.partition("/")
            if asker.delete("limits", scope, name)["cleared"]:
                note(f"{clean(target)} is limited no more")
            else:
                note(f"no limit was set for {clean(target)}")


def limits_table(views: list[View]) -> str:
    columns = [
        Column("LIMIT", elastic=True),
        Column("IN USE", right=True),
        Column("RUNNING", right=True),
        Column("RATE", right=True),
        Column("WEIGHT", right=True),
    ]
    names = ("id", "in_use", "running", "rate", "weight")
    return draw(columns, [[view[name] for name in names] for view in views])


def limit_text(view: View) -> str:
    return draw_fields(
        [
            ("limit", view["id"]),
            ("running", view["running"]),
            ("rate", view["rate"]),
            ("weight", view["weight"]),
            ("in use", view["in_use"]),
        ]
    )

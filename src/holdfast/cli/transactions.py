"""`holdfast transactions`: what was asked, by whom, and all that followed."""

import click

from holdfast.cli.output import TABLES, Column, View, draw, emit_list
from holdfast.cli.reading import Look, reads
from holdfast.cli.spans import clock


@click.command()
@reads
@click.option(
    "--limit", type=click.IntRange(min=0), default=100, show_default=True,
    help="How many, the newest last; 0 for all that is kept.",
)  # fmt: skip
def transactions(look: Look, form: str, limit: int) -> None:
    """Show the newest transactions: each command with its events and actions.

    A transaction is everything one accepted command made true, as one record of the log.
    """
    with look.source() as source:
        views = source.transactions(limit)
    drawn = transactions_table(views, wide=form == "wide") if form in TABLES and views else ""
    emit_list(form, "transactions", views, drawn)


def transactions_table(views: list[View], *, wide: bool) -> str:
    columns = [
        Column("POSITION", right=True),
        Column("TIME UTC"),
        Column("COMMAND"),
        Column("ACTOR", elastic=True),
        Column("ACTIONS", elastic=True),
    ]
    rows = [
        [
            view["position"],
            view["time"] if wide else clock(view["time"]),
            view["command"],
            view["actor"],
            _actions(view, wide),
        ]
        for view in views
    ]
    return draw(columns, rows)


def _actions(view: View, wide: bool) -> str:
    """`task_succeeded 1/3, …`: each action with its entity, the first few unless wide."""
    told = [f"{action['action']} {action['entity']}" for action in view["actions"]]
    shown = told if wide else told[:3]
    more = f", and {len(told) - len(shown)} more" if len(told) > len(shown) else ""
    return ", ".join(shown) + more

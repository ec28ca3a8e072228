"""`holdfast transactions`: what was asked, by whom, and all that followed."""

from pathlib import Path

import click

from holdfast.cli.output import Column, View, draw, emit_list, note
from holdfast.cli.reading import folder_of, reads
from holdfast.cli.spans import clock
from holdfast.coordinator.inspect import Folder, Moment, Told, look_at, undisturbed
from holdfast.coordinator.views import rfc3339
from holdfast.core.transactions import to_json, transaction_of


@click.command()
@reads
@click.option(
    "--limit", type=click.IntRange(min=0), default=100, show_default=True,
    help="How many, the newest last; 0 for all that is kept.",
)  # fmt: skip
def transactions(data: Path | None, at: Moment | None, form: str, limit: int) -> None:
    """Show the newest transactions: each command with its events and actions.

    A transaction is everything one accepted command made true, as one record of the log.
    """
    path = folder_of(data)
    folder, views = undisturbed(lambda: _newest(path, at, limit))
    if not views:
        note(f"nothing is kept of {folder.path} up to there; its history begins at {folder.oldest}")
    wide = form == "wide"
    drawn = transactions_table(views, wide=wide) if form in ("table", "wide") and views else ""
    emit_list(form, "transactions", views, drawn)


def _newest(path: Path, at: Moment | None, limit: int) -> tuple[Folder, list[View]]:
    folder, last = look_at(path, at)
    first = max(folder.oldest, last - limit + 1) if limit else folder.oldest
    return folder, [transaction_view(told) for told in folder.records(first, last)]


def transaction_view(told: Told) -> View:
    """One transaction as JSON has it; its time is that of the wall clock."""
    transaction = transaction_of(told.record, told.position)
    time = rfc3339(told.wall(transaction.time))
    return {**to_json(transaction), "time": time}


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

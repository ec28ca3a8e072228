"""`holdfast job explain`, `task explain`, `task history`: why it is so, and how it came to be."""

from typing import Final

import click

from holdfast.cli.output import TABLES, View, clean, clean_text, emit_list, emit_one, note
from holdfast.cli.reading import Look, reads
from holdfast.cli.selectors import find_one_task
from holdfast.cli.sources import Source
from holdfast.cli.transactions import transactions_table

OF_FOLDERS: Final = (
    "holdfast job show", "holdfast task show", "holdfast task list", "holdfast serve",
)  # fmt: skip


@click.command("explain")
@click.argument("selector", metavar="JOB")
@reads
def explain_job(look: Look, selector: str, form: str) -> None:
    """Say why a job is where it is: what its tasks wait for, and what to type about it."""
    with look.source() as source:
        view = source.explain_job(source.job(selector))
        emit_one(form, _plain(view), explained(f"job {view['id']}", view, source))


@click.command("explain")
@click.argument("selector", metavar="JOB/INDEX")
@reads
def explain_task(look: Look, selector: str, form: str) -> None:
    """Say why a task is where it is: what holds it up, who holds it, or how it ended."""
    with look.source() as source:
        job, index = find_one_task(source, selector)
        view = source.explain_task(job, index)
        emit_one(form, _plain(view), explained(f"task {view['id']}", view, source))


@click.command("history")
@click.argument("selector", metavar="JOB/INDEX")
@reads
def history(look: Look, selector: str, form: str) -> None:
    """Show every transaction that touched a task, the oldest first."""
    with look.source() as source:
        job, index = find_one_task(source, selector)
        told = source.history(job, index)
    views = told["transactions"]
    drawn = transactions_table(views, wide=form == "wide") if form in TABLES and views else ""
    emit_list(form, "transactions", views, drawn)
    if not told["complete"]:
        note("this is not all of it: some lies too far apart in the log, or is no longer kept")


def _plain(view: View) -> View:
    return {name: value for name, value in view.items() if name != "schema"}


def explained(what: str, view: View, source: Source) -> str:
    """The reasons in words, each with what to type about it below it."""
    lines = [f"{what} is {view['state']}"]
    for reason in view["reasons"]:
        tasks = reason.get("tasks")
        about = "" if not tasks else f" ({tasks:,} task{'s' if tasks > 1 else ''})"
        lines.append(f"- {clean_text(reason['sentence'])}{about}")
        if reason["until"] is not None:
            lines.append(f"    until {reason['until']}")
        if reason["command"] is not None:
            lines.append(f"    {clean(reason['command'])}{_leading(reason['command'], source)}")
    return "".join(f"{line}\n" for line in lines)


def _leading(command: str, source: Source) -> str:
    """What leads the command back to where was looked; a folder takes no orders."""
    is_for_server = source.options.startswith(" --data") and not command.startswith(OF_FOLDERS)
    return "" if is_for_server else source.options

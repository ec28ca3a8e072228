"""`holdfast job explain`, `task explain`, `task history`: why it is so, and how it came to be."""

from pathlib import Path

import click

from holdfast.cli.asking import Asker, asking
from holdfast.cli.options import output_option, server_options
from holdfast.cli.output import TABLES, View, clean, clean_text, emit_list, emit_one, note
from holdfast.cli.reading import Look, reads
from holdfast.cli.selectors import find_one_task
from holdfast.cli.servers import FromServer
from holdfast.cli.transactions import transactions_table


@click.command("explain")
@click.argument("selector", metavar="JOB")
@server_options
@output_option
def explain_job(selector: str, server: str | None, token_file: Path | None, form: str) -> None:
    """Say why a job is where it is: what its tasks wait for, and what to type about it."""
    with asking(server, token_file) as asker:
        job = FromServer(asker).job(selector)
        view = asker.get("jobs", job["id"], "explain")
        emit_one(form, _plain(view), explained(f"job {view['id']}", view, asker))


@click.command("explain")
@click.argument("selector", metavar="JOB/INDEX")
@server_options
@output_option
def explain_task(selector: str, server: str | None, token_file: Path | None, form: str) -> None:
    """Say why a task is where it is: what holds it up, who holds it, or how it ended."""
    with asking(server, token_file) as asker:
        job, index = find_one_task(FromServer(asker), selector)
        view = asker.get("tasks", job["id"], index, "explain")
        emit_one(form, _plain(view), explained(f"task {view['id']}", view, asker))


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


def explained(what: str, view: View, asker: Asker) -> str:
    """The reasons in words, each with what to type about it below it."""
    lines = [f"{what} is {view['state']}"]
    for reason in view["reasons"]:
        tasks = reason.get("tasks")
        about = "" if not tasks else f" ({tasks:,} task{'s' if tasks > 1 else ''})"
        lines.append(f"- {clean_text(reason['sentence'])}{about}")
        if reason["until"] is not None:
            lines.append(f"    until {reason['until']}")
        if reason["command"] is not None:
            lines.append(f"    {clean(reason['command'])}{asker.options}")
    return "".join(f"{line}\n" for line in lines)

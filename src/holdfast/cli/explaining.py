"""`holdfast job explain`, `task explain`, `task history`: why it is so, and how it came to be."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final, TypeVar, cast

import click

from holdfast.cli.audit_tables import moves_table
from holdfast.cli.output import (
    TABLES,
    View,
    clean,
    clean_text,
    emit,
    emit_list,
    emit_one,
    note,
)
from holdfast.cli.reading import Look, reads
from holdfast.cli.selectors import find_one_task
from holdfast.cli.tables import cell, number, table_of, words
from holdfast.cli.transactions import transactions_table
from holdfast.scheduler.reasons import MOST_AHEAD

F = TypeVar("F", bound=Callable[..., Any])

OF_FOLDERS: Final = (
    "holdfast job show", "holdfast job explain", "holdfast task show", "holdfast task list",
    "holdfast serve",
)  # fmt: skip


KEY, ALL, COUNTED, EVERY = range(4)
"""How much is told: the most telling reason; all of them; with counts, names, the place in the
queue and what would help; and each worker by itself."""


def _levels(command: F) -> F:
    """`--level` and `-v`, given to the command as one `level`."""

    @wraps(command)
    def told(level: int | None, verbose: int, **rest: Any) -> Any:
        return command(level=min(ALL + verbose, EVERY) if level is None else level, **rest)

    choice = click.option(
        "--level", type=click.IntRange(KEY, EVERY),
        help="0: the most telling reason; 1: all; 2: with counts and jobs; 3: every worker.",
    )  # fmt: skip
    more = click.option("-v", "--verbose", count=True, help="More of it; twice for all.")
    return cast(F, choice(more(told)))


@click.command("explain")
@click.argument("selector", metavar="JOB")
@reads
@_levels
def explain_job(look: Look, selector: str, form: str, level: int) -> None:
    """Say why a job is where it is: what its tasks wait for, and what to type about it."""
    _explain_job(look, selector, form, level)


def _explain_job(look: Look, selector: str, form: str, level: int) -> None:
    with look.source() as source:
        view = source.explain_job(source.job(selector), level)
        emit_one(form, _plain(view), explained(f"job {view['id']}", view, source.options, level))


@click.command("explain")
@click.argument("selector", metavar="JOB/INDEX")
@reads
@_levels
def explain_task(look: Look, selector: str, form: str, level: int) -> None:
    """Say why a task is where it is: what holds it up, who holds it, or how it ended."""
    _explain_task(look, selector, form, level)


def _explain_task(look: Look, selector: str, form: str, level: int) -> None:
    with look.source() as source:
        job, index = find_one_task(source, selector)
        view = source.explain_task(job, index, level)
        emit_one(form, _plain(view), explained(f"task {view['id']}", view, source.options, level))


@click.command("explain")
@click.argument("selector", metavar="[JOB|JOB/INDEX]", required=False)
@click.option("--summary", is_flag=True, help="Count all waiting tasks by why they wait.")
@reads
@_levels
def explain(look: Look, selector: str | None, summary: bool, form: str, level: int) -> None:
    """Say why a job or a task is where it is, or what everything waits for."""
    if summary == (selector is not None):
        raise click.UsageError("name a job or a task, or ask for --summary")
    if selector is None:
        _summarize(look, form)
    elif "/" in selector:
        _explain_task(look, selector, form, level)
    else:
        _explain_job(look, selector, form, level)


def _summarize(look: Look, form: str) -> None:
    with look.source() as source:
        view = source.summary()
    if form in TABLES:
        if not view["reasons"]:
            note("nothing waits")
            return
        emit(_summary_table(view["reasons"], wide=form == "wide"))
    else:
        emit_one(form, {"id": "summary", **_plain(view)}, "")


def _summary_table(reasons: list[View], *, wide: bool) -> str:
    return table_of(
        reasons,
        cell("REASON", "code"),
        number("TASKS", "tasks"),
        number("JOBS", "jobs"),
        words("MEANS", "means"),
        *((words("WHAT HELPS", "cure"),) if wide else ()),
    )


@click.command("history")
@click.argument("selector", metavar="JOB/INDEX")
@reads
def history(look: Look, selector: str, form: str) -> None:
    """Show every move of a task, the oldest first: when, from where to where, who, why, under which
    attempt, lease and worker. What was refused is marked, as far as it is noted.

    With -o wide the transactions are shown as well; a program is given both.
    """
    with look.source() as source:
        job, index = find_one_task(source, selector)
        told = source.history(job, index)
    if form in TABLES:
        emit(moves_table(told["transitions"], wide=form == "wide"))
        if form == "wide":
            emit("\n" + transactions_table(told["transactions"], wide=True))
    elif form in ("json", "yaml"):
        emit_one(form, {"id": f"{job['id']}/{index}", **_plain(told)}, "")
    else:
        views = told["transitions" if form == "jsonl" else "transactions"]
        emit_list(form, "transitions", views, "")
    if not told["complete"]:
        note("this is not all of it: some lies too far apart in the log, or is no longer kept")


def _plain(view: View) -> View:
    return {name: value for name, value in view.items() if name != "schema"}


def explained(what: str, view: View, options: str, level: int = ALL) -> str:
    """The reasons in words, each with what to type about it below it. `options` lead back to where
    was looked."""
    reasons = view["reasons"]
    if level == KEY:
        return f"{what} is {view['state']}: {clean_text(reasons[0]['sentence'])}\n"
    lines = [f"{what} is {view['state']}"]
    if level >= COUNTED and view.get("ahead"):
        lines[0] += f", with {_ahead(view['ahead'])} before it"
    for reason in reasons:
        lines += reason_lines(reason, options, level)
    for desk in view.get("standing", ()) if level >= EVERY else ():
        against = "; ".join(desk["against"]) or "there is room"
        lines.append(f"  {clean(desk['worker'])}: {clean_text(against)}")
    return "".join(f"{line}\n" for line in lines)


def _ahead(tasks: int) -> str:
    many = f"{tasks:,} or more" if tasks >= MOST_AHEAD else f"{tasks:,}"
    return f"{many} task{'s' if tasks > 1 else ''}"


def foreseen_text(told: View, options: str) -> str:
    """What would become of a job, in words."""
    if told["existing"] is not None:
        return f"\nIt would find job {clean(told['existing'])}, which is there already.\n"
    workers = told["workers"]
    fits = f"it fits on {workers['fitting']} of {workers['all']} workers"
    lines = [f"{told['starting']:,} of {told['tasks']:,} tasks would start now; {fits}"]
    for reason in told["reasons"]:
        if reason["code"] != "next":
            lines += reason_lines(reason, options)
    return "\n" + "".join(f"{line}\n" for line in lines)


def reason_lines(reason: View, options: str, level: int = ALL) -> Iterator[str]:
    tasks = reason.get("tasks")
    about = "" if not tasks else f" ({tasks:,} task{'s' if tasks > 1 else ''})"
    yield f"- {clean_text(reason['sentence'])}{about}"
    if level >= COUNTED:
        yield f"    code: {reason['code']}"
        for name, told in (
            ("counts", ", ".join(f"{what} on {count}" for what, count in reason["counts"].items())),
            ("workers", ", ".join(reason["workers"])),
            ("jobs", ", ".join(reason["jobs"])),
            ("what helps", reason["cure"]),
        ):
            if told:
                yield f"    {name}: {clean(told)}"
    if reason["until"] is not None:
        yield f"    until {reason['until']}"
    if reason["command"] is not None:
        yield f"    {clean(reason['command'])}{_leading(reason['command'], options)}"


def _leading(command: str, options: str) -> str:
    """What leads the command back to where was looked; a folder takes no orders."""
    is_for_server = options.startswith(" --data") and not command.startswith(OF_FOLDERS)
    return "" if is_for_server else options

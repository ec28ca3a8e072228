"""`holdfast job list`, `job show` and `ps`."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.cli.options import watch_option
from holdfast.cli.output import (
    TABLES,
    View,
    chosen_states,
    emit_list,
    emit_one,
    note,
    row_limit,
)
from holdfast.cli.pairs import pairs_of
from holdfast.cli.reading import Look, reads
from holdfast.cli.selectors import UNFINISHED, find_jobs
from holdfast.cli.sources import Source
from holdfast.cli.tables import job_text, jobs_table
from holdfast.cli.watched import watched
from holdfast.core.job import JobState
from holdfast.wire.wanted import Wanted

F = TypeVar("F", bound=Callable[..., Any])


def _narrowing(command: F) -> F:
    """Which jobs of many."""
    for option in (
        click.option("--limit", type=int, help="At most so many. [default: 50 in a table]"),
        click.option(
            "-l", "--label", "--selector", "labels", multiple=True, metavar="KEY=VALUE",
            help="Only jobs with this label; repeat for more.",
        ),
        click.option("--queue", help="Only jobs of this queue."),
        click.option("--namespace", help="Only jobs of this namespace."),
        click.option("--name", help="Only jobs of this name; * and ? stand for anything."),
    ):  # fmt: skip
        command = option(command)
    return command


@click.command("list")
@reads
@click.option("--state", multiple=True, help="Only jobs in this state; several with commas.")
@_narrowing
@watch_option
def list_jobs(
    look: Look, form: str, state: tuple[str, ...], limit: int | None, watch: bool, **rest: Any
) -> None:
    """List jobs, newest first."""
    known = [each.value for each in JobState]
    states = chosen_states(state, known) if state else frozenset()
    _list(look, form, _wanted(states, **rest), limit, watch=watch)


@click.command("ps")
@reads
@_narrowing
@watch_option
def ps(look: Look, form: str, limit: int | None, watch: bool, **rest: Any) -> None:
    """List the jobs that have not ended, newest first."""
    _list(look, form, _wanted(UNFINISHED, **rest), limit, watch=watch)


def _wanted(states: frozenset[str], **rest: Any) -> Wanted:
    labels = tuple(pairs_of(rest["labels"], "--label").items())
    return Wanted(
        states=states,
        name=rest["name"] or "",
        namespace=rest["namespace"] or "",
        queue=rest["queue"] or "",
        labels=labels,
    )


def _list(look: Look, form: str, wanted: Wanted, limit: int | None, *, watch: bool) -> None:
    most = row_limit(limit, form)
    with look.source() as source:
        if watch:
            _watch(source, form, wanted, most)
            return
        found = source.jobs(wanted, most)
        found.tell("jobs")
        _show(source, form, found.views)


def _show(source: Source, form: str, views: list[View]) -> None:
    if form not in TABLES:
        emit_list(form, "jobs", views, "")
    elif views:
        emit_list(form, "jobs", views, jobs_table(views, source.now(), wide=form == "wide"))
    else:
        note(source.why_empty())


def _watch(source: Source, form: str, wanted: Wanted, most: int) -> None:
    def again() -> list[View]:
        source.refresh()
        return source.jobs(wanted, most).views

    watched(form, again, lambda views: jobs_table(views, source.now(), wide=form == "wide"))


@click.command("show")
@click.argument("selectors", metavar="JOB...", nargs=-1, required=True)
@reads
def show_job(look: Look, selectors: tuple[str, ...], form: str) -> None:
    """Show jobs. JOB is an id, the beginning of one, `last`, `all`, or numbers such as 1-10:2."""
    with look.source() as source:
        found = find_jobs(source, selectors)
        # What a list of jobs tells is less than what is shown of one.
        views = [view if "spec" in view else source.job(view["id"]) for view in found]
        if len(views) == 1:
            emit_one(form, views[0], job_text(views[0], source.options))
            return
        text = "\n".join(job_text(view, source.options) for view in views)
        emit_list(form, "jobs", views, text)
